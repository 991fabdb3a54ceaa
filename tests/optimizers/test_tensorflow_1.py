"""Programs in the style of TensorFlow 1: graphs, sessions, and no eager execution."""

import json

import pytest
import tensorflow as tf

import tf_lso
from tests import preloaded
from tests.families import FAMILIES, here, wrapped
from tests.generation import HAS_KERAS3
from tf_lso.keras.mixed_precision import experimental

V1 = tf.compat.v1
inf, nan = float("inf"), float("nan")


@pytest.mark.parametrize("method", ["minimize", "get_updates", "apply_gradients"])
def test_the_returned_operation_takes_the_step(family, method):
    with tf.Graph().as_default():
        v = V1.get_variable("v", initializer=2.0, use_resource=True)
        inner = FAMILIES[family].SGD(0.25)
        optimizer = experimental.LossScaleOptimizer(inner, "dynamic")
        factor = V1.placeholder(tf.float32, [])
        if method == "minimize":
            train = optimizer.minimize(lambda: factor * v, [v])
        elif method == "get_updates":
            (train,) = optimizer.get_updates(factor * v, [v])
        else:
            train = optimizer.apply_gradients([(factor * 1.0, v)])
        # A session returns None for an operation, and programs log what `run` returns.
        assert isinstance(train, tf.Operation)
        with V1.Session() as session:
            session.run(V1.global_variables_initializer())
            for value, expected in ((1.0, 1.75), (2.0, 1.25)):
                session.run(train, {factor: value})
                assert session.run(v) == pytest.approx(expected)
            session.run(train, {factor: inf})
            assert session.run(v) == pytest.approx(1.25)
            assert session.run(optimizer.loss_scale()) == 2.0**14


def test_skipped_steps_are_counted_in_a_graph(family):
    with tf.Graph().as_default():
        v = V1.get_variable("v", initializer=2.0, use_resource=True)
        optimizer = tf_lso.LossScaleOptimizer(
            FAMILIES[family].SGD(0.25), initial_scale=4.0
        )
        gradient = V1.placeholder(tf.float32, [])
        train = optimizer.apply_gradients([(gradient, v)])
        statistics = (
            optimizer.loss_scale,
            optimizer.skipped_steps,
            optimizer.consecutive_skipped_steps,
            optimizer.last_step_skipped,
            # The number of consecutive skipped steps, or 0 if the scale can still shrink.
            optimizer._skipped.stuck(),
        )
        with V1.Session() as session:
            session.run(V1.global_variables_initializer())
            for value, expected in (
                (1.0, (4.0, 0, 0, False, 0)),
                (inf, (2.0, 1, 1, True, 0)),
                (nan, (1.0, 2, 2, True, 2)),
                (inf, (1.0, 3, 3, True, 3)),
                (1.0, (1.0, 3, 0, False, 0)),
                (inf, (1.0, 4, 1, True, 1)),
            ):
                session.run(train, {gradient: value})
                assert tuple(session.run(statistics)) == expected


def test_a_step_runs_the_update_of_a_users_own_scale(family):
    class Shrinking(tf_lso.FixedLossScale):
        def __init__(self, loss_scale_value):
            super().__init__(loss_scale_value)
            self.value = self._add_weight("value", loss_scale_value, tf.float32)

        def __call__(self):
            return tf.identity(self.value)

        def update(self, grads):
            return self.value.assign(self.value / 2.0).op, tf.constant(True)

    with tf.Graph().as_default(), V1.Session() as session:
        v = V1.get_variable("v", initializer=2.0, use_resource=True)
        scale = Shrinking(8.0)
        optimizer = experimental.LossScaleOptimizer(FAMILIES[family].SGD(0.25), scale)
        train = optimizer.apply_gradients([(tf.constant(1.0), v)])
        session.run(V1.global_variables_initializer())
        for expected in (4.0, 2.0):
            session.run(train)
            assert session.run(scale()) == expected


def test_the_scale_cannot_be_set_in_a_graph(family):
    with tf.Graph().as_default():
        optimizer = wrapped(family)
        with pytest.raises(RuntimeError, match="'loss_scale' cannot be set"):
            optimizer.loss_scale = 16.0


@pytest.mark.parametrize("family", here("keras3", "new"))
def test_a_step_in_a_branch_is_taken_if_the_branch_runs(family):
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
        for is_chosen in (True, False):
            session.run(train, {choice: is_chosen})
            assert session.run(v).tolist() == [0.5, 1.5]


# --- Models of Keras 2 without eager execution, which a process cannot enable again.


def _run(body, folder=None):
    """Run statements in their own process, and return what they wrote into the dict `out`."""
    used = "1" if HAS_KERAS3 else "0"
    program = f"{_BEGIN}\n{body}\nprint('RESULT', json.dumps(out))"
    done = preloaded.run(["-c", program], folder, TF_USE_LEGACY_KERAS=used)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    assert lines, done.stderr[-3000:]
    return json.loads(lines[0].removeprefix("RESULT"))


_BEGIN = """
import json
import numpy as np
import tensorflow as tf
import tf_lso
tf_keras = tf.keras
tf.compat.v1.disable_eager_execution()
out = {}
"""

_STATE = """
tf_lso.install()
tf_lso.keras.mixed_precision.set_global_policy("mixed_float16")
layers = [
    tf_keras.layers.Dense(4, input_shape=(3,)),
    tf_keras.layers.Dense(1, dtype="float32"),
]
model = tf_keras.Sequential(layers)
model.compile(tf_keras.optimizers.legacy.Adam(0.05), "mse")
x = np.random.RandomState(0).rand(16, 3).astype("float32")
y = x.sum(1, keepdims=True)
K = tf_keras.backend
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
out["iterations after loading"] = int(K.get_value(loaded.optimizer.iterations))
model.save_weights("weights.h5")
model.load_weights("weights.h5")
model.save_weights("resumed")
model.fit(x, y, batch_size=8, verbose=0)
model.load_weights("resumed")
out["iterations after load_weights"] = int(K.get_value(optimizer.iterations))
try:
    optimizer.set_weights([np.zeros(3) for _ in weights])
except ValueError as error:
    out["error"] = str(error)
"""


@pytest.mark.slow
def test_the_state_is_saved_loaded_and_set(tmp_path):
    out = _run(_STATE, tmp_path)
    variables = [[3, 4], [4], [4, 1], [1]]
    # The step counter, two slots for each variable, the scale and the count of finite steps.
    assert out["shapes"] == [[], *variables, *variables, [], []]
    assert out["set"]
    assert out["iterations"] == 7
    assert out["loaded"]
    assert out["iterations after loading"] == 4
    assert out["iterations after load_weights"] == 2
    assert "shape (3,)" in out["error"]


_SESSION = """
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
    out["set weights"] = [float(array) for array in optimizer.get_weights()]
"""


def test_weights_are_read_and_set_in_a_session_that_the_program_made():
    out = _run(_SESSION)
    assert out["v"] == 1.75
    assert sorted(out["weights"]) == [1.0, 1.0, 8.0]
    assert out["set weights"] == [5.0, 16.0, 3.0]
