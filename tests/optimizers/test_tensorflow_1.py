"""TensorFlow 1: graphs and sessions, and programs that disable eager execution."""

import json

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests import preloaded
from tests.families import FAMILIES, KERAS2_PACKAGE, here, wrapped
from tests.generation import HAS_KERAS3
from tf_lso.keras.mixed_precision import experimental

V1 = tf.compat.v1
inf, nan = float("inf"), float("nan")


@pytest.mark.parametrize(
    "loss_scale", [pytest.param(8, marks=pytest.mark.slow), "dynamic"]
)
@pytest.mark.parametrize("method", ["minimize", "get_updates", "apply_gradients"])
def test_the_operation_does_the_step(family, loss_scale, method):
    with tf.Graph().as_default():
        v = V1.get_variable("v", initializer=2.0, use_resource=True)
        inner = FAMILIES[family].SGD(0.25)
        optimizer = experimental.LossScaleOptimizer(inner, loss_scale)
        factor = V1.placeholder(tf.float32, [])
        if method == "minimize":
            train = optimizer.minimize(lambda: factor * v, [v])
        elif method == "get_updates":
            (train,) = optimizer.get_updates(factor * v, [v])
        else:
            train = optimizer.apply_gradients([(factor * 1.0, v)])
        with V1.Session() as session:
            session.run(V1.global_variables_initializer())
            last = inf if loss_scale == "dynamic" else 0.0
            for value, expected in ((1.0, 1.75), (2.0, 1.25), (last, 1.25)):
                session.run(train, {factor: value})
                assert session.run(v) == pytest.approx(expected)
            if loss_scale == "dynamic":
                assert session.run(optimizer.loss_scale()) == 2.0**14


def test_skipped_steps_in_a_row_are_counted(family):
    with tf.Graph().as_default():
        v = V1.get_variable("v", initializer=2.0, use_resource=True)
        optimizer = tf_lso.LossScaleOptimizer(
            FAMILIES[family].SGD(0.25), initial_scale=4.0, hysteresis=2
        )
        gradient = V1.placeholder(tf.float32, [])
        train = optimizer.apply_gradients([(gradient, v)])
        names = "loss_scale skipped_steps consecutive_skipped_steps last_step_skipped"
        read = [getattr(optimizer, name) for name in names.split()]
        read.append(optimizer._skipped.stuck())
        with pytest.raises(RuntimeError, match="'loss_scale' cannot be set"):
            optimizer.loss_scale = 16.0
        with V1.Session() as session:
            session.run(V1.global_variables_initializer())
            for value, expected in (
                (1.0, (4.0, 0, 0, False, 0)),
                (inf, (4.0, 1, 1, True, 0)),
                (nan, (2.0, 2, 2, True, 0)),
                (inf, (1.0, 3, 3, True, 3)),
                (inf, (1.0, 4, 4, True, 4)),
                (inf, (1.0, 5, 5, True, 5)),
                (1.0, (1.0, 5, 0, False, 0)),
                (inf, (1.0, 6, 1, True, 1)),
            ):
                session.run(train, {gradient: value})
                assert tuple(session.run(read)) == expected


@pytest.mark.parametrize("family", here("keras3", "new"))
def test_a_step_in_a_branch_updates(family):
    with tf.Graph().as_default(), V1.Session() as session:
        v = V1.get_variable("v", initializer=[1.0, 2.0], use_resource=True)
        optimizer = wrapped(family, "SGD", 0.5)
        optimizer.build([v])
        choice = V1.placeholder(tf.bool, [])
        train = tf.cond(
            choice,
            lambda: tf.group(optimizer.apply_gradients([(tf.ones(2), v)])),
            tf.no_op,
        )
        session.run(V1.global_variables_initializer())
        for is_chosen, expected in ((True, [0.5, 1.5]), (False, [0.5, 1.5])):
            session.run(train, {choice: is_chosen})
            assert session.run(v).tolist() == expected


# --- Models of tf_keras without eager execution: a process for each, as it stays off.

_PROGRAM = """
import json, os, sys
import numpy as np
import tensorflow as tf
tf_keras = tf.keras
tf.compat.v1.disable_eager_execution()
out = {}

def compiled(optimizer):
    layers = [
        tf_keras.layers.Dense(4, input_shape=(3,), kernel_initializer="ones"),
        tf_keras.layers.Dense(1, dtype="float32", kernel_initializer="ones"),
    ]
    model = tf_keras.Sequential(layers)
    model.compile(optimizer, "mse")
    return model

x = np.random.RandomState(0).rand(16, 3).astype("float32")
y = x.sum(1, keepdims=True)
K = tf_keras.backend
BODY
print("RESULT", json.dumps(out))
"""

_TRAIN = """
model = compiled(WRAP(tf_keras.optimizers.FAMILYSGD(0.01, momentum=0.5)))
history = model.fit(x, y, batch_size=8, epochs=4, shuffle=False, verbose=0)
optimizer = model.optimizer
out["class"] = type(optimizer).__module__
out["losses"] = history.history["loss"]
out["iterations"] = int(K.get_value(optimizer.iterations))
if hasattr(optimizer, "loss_scale"):
    scale = optimizer.loss_scale
    out["scale"] = float(K.get_value(scale() if callable(scale) else scale))
"""

_SET = """import tf_lso; tf_lso.install()
tf_lso.keras.mixed_precision.set_global_policy("mixed_float16")"""
_OWN = 'tf_keras.mixed_precision.set_global_policy("mixed_float16")'
_EXPERIMENTAL = """import tf_lso; tf_lso.install()
from tf_lso.keras.mixed_precision import experimental as e
e.set_policy(e.Policy("mixed_float16", loss_scale=SCALE))"""


def _run(body, setup, wrap="", family="legacy.", folder=None):
    program = _PROGRAM.replace("BODY", f"{setup}\n{body}")
    program = program.replace("WRAP", wrap).replace("FAMILY", family)
    used = "1" if HAS_KERAS3 else "0"
    done = preloaded.run(["-c", program], folder, TF_USE_LEGACY_KERAS=used)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    assert lines, done.stderr[-3000:]
    return json.loads(lines[0].removeprefix("RESULT"))


@pytest.fixture(scope="module")
def tf_keras_own():
    return _run(_TRAIN, _OWN)


@pytest.mark.parametrize(
    ("setup", "wrap", "family"),
    [
        (_SET, "", "legacy."),
        (_SET, "", ""),
        (_EXPERIMENTAL.replace("SCALE", "'dynamic'"), "", "legacy."),
        (f"import tf_lso; tf_lso.install(); {_OWN}", "", "legacy."),
        (f"import tf_lso; {_OWN}", "tf_lso.LossScaleOptimizer", "legacy."),
    ],
    ids=["policy", "newer", "experimental", "install", "wrapped"],
)
def test_fit_trains_as_with_tf_kerass_own_wrapper(setup, wrap, family, tf_keras_own):
    """That of legacy optimizers: tf_keras wraps no newer ones there."""
    got = _run(_TRAIN, setup, wrap, family)
    assert got["class"].startswith("tf_lso")
    np.testing.assert_allclose(got["losses"], tf_keras_own["losses"], rtol=2e-2)
    assert got["iterations"] == tf_keras_own["iterations"] == 8
    assert got["scale"] == tf_keras_own["scale"]


@pytest.mark.parametrize("scale", [128, None])
def test_the_loss_scale_of_an_experimental_policy(scale):
    got = _run(_TRAIN, _EXPERIMENTAL.replace("SCALE", str(scale)))
    package = "tf_lso" if scale else KERAS2_PACKAGE
    assert got["class"].startswith(package)
    assert got.get("scale") == scale
    assert got["losses"][-1] < got["losses"][0]


_STATE = """
model = compiled(tf_keras.optimizers.legacy.Adam(0.05))
model.fit(x, y, batch_size=8, verbose=0)
optimizer = model.optimizer
weights = optimizer.get_weights()
out["shapes"] = [list(array.shape) for array in weights]
optimizer.set_weights([array + 1 for array in weights])
out["set"] = all(
    np.array_equal(a + 1, b) for a, b in zip(weights, optimizer.get_weights())
)
K.set_value(optimizer.iterations, 7)
out["iterations"] = int(K.get_value(optimizer.iterations))
optimizer.set_weights(weights)
model.save("model.h5")
loaded = tf_keras.models.load_model("model.h5")
out["loaded"] = all(
    np.array_equal(a, b) for a, b in zip(weights, loaded.optimizer.get_weights())
)
loaded.fit(x, y, batch_size=8, verbose=0)
out["goes on"] = int(K.get_value(loaded.optimizer.iterations))
model.save_weights("weights.h5")
model.load_weights("weights.h5")
model.save_weights("resumed")
model.fit(x, y, batch_size=8, verbose=0)
model.load_weights("resumed")
out["restored"] = int(K.get_value(optimizer.iterations))
try:
    optimizer.set_weights([np.zeros(3) for _ in weights])
except ValueError as error:
    out["error"] = str(error)
"""


def test_state_in_sessions(tmp_path):
    got = _run(_STATE, _SET, folder=tmp_path)
    slots = [[3, 4], [4], [4, 1], [1]]
    assert got["shapes"] == [[], *slots, *slots, [], []]
    assert got["set"] and got["loaded"]
    counts = got["iterations"], got["goes on"], got["restored"]
    assert counts == (7, 4, 2)
    assert "shape (3,)" in got["error"]


_OWN_SESSION = """
with tf.compat.v1.Session() as session:
    v = tf.compat.v1.get_variable("v", initializer=2.0, use_resource=True)
    optimizer = tf_lso.LossScaleOptimizer(
        tf_keras.optimizers.legacy.SGD(0.25), initial_scale=8
    )
    train = optimizer.minimize(lambda: v * 1.0, [v])
    session.run(tf.compat.v1.global_variables_initializer())
    session.run(train)
    out["v"] = float(session.run(v))
    out["weights"] = [float(array) for array in optimizer.get_weights()]
    optimizer.set_weights([5, 16.0, 3])
    out["after"] = [float(array) for array in optimizer.get_weights()]
"""


def test_state_in_a_session_of_the_programs_own():
    got = _run(_OWN_SESSION, "import tf_lso")
    assert got["v"] == 1.75
    assert sorted(got["weights"]) == [1.0, 1.0, 8.0]
    assert got["after"] == [5.0, 16.0, 3.0]
