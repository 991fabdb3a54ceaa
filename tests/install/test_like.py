"""`install(like=...)` and `tf-lso run --like` choose the Keras of an earlier TensorFlow."""

import os
import sys
import textwrap
import types

import pytest
import tensorflow as tf

from tests import processes
from tests.families import FAMILIES, HAS_KERAS3, KERAS2_PACKAGE, keras, keras2
from tf_lso.install import earlier_keras2
from tf_lso.install import like as like_lib
from tf_lso.install.ledger import Ledger
from tf_lso.install.table import PATCHES

# A copy of the training step of TensorFlow 2.3. It calls private methods that the optimizers of
# TensorFlow 2.3 had.
STEP_OF_2_3 = """
import tensorflow as tf
from tensorflow.python.keras.mixed_precision.experimental import loss_scale_optimizer

def minimize(optimizer, tape, loss, variables):
    scales = isinstance(optimizer, loss_scale_optimizer.LossScaleOptimizer)
    with tape:
        loss = optimizer.get_scaled_loss(loss) if scales else loss
    grads = tape.gradient(loss, variables)
    if optimizer._HAS_AGGREGATE_GRAD:
        grads = optimizer._aggregate_gradients(zip(grads, variables))
    grads = optimizer.get_unscaled_gradients(grads) if scales else grads
    grads = optimizer._clip_gradients(grads)
    pairs = list(zip(grads, variables))
    optimizer.apply_gradients(pairs, experimental_aggregate_gradients=False)

for wraps in (True, False):
    arguments = {} if wraps else {"clipnorm": 1.0}
    optimizer = tf.keras.optimizers.SGD(0.125, momentum=0.5, **arguments)
    if wraps:
        optimizer = loss_scale_optimizer.LossScaleOptimizer(optimizer, "dynamic")
    x = tf.Variable([3.0, 4.0])
    for _ in range(3):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x * x)
        minimize(optimizer, tape, loss, [x])
    print(x.numpy())
    optimizer.minimize(lambda: tf.reduce_sum(x * x), [x])  # calls `_aggregate_gradients` itself
    print(x.numpy())
"""

PRINT_MODULE_OF_ADAM = """
import tensorflow as tf
print(tf.keras.optimizers.Adam.__module__)
"""


def run(tmp_path, program, *options, by=processes.start, **environment):
    """Run a program by `tf-lso run` with options. Return the finished process."""
    path = tmp_path / "program.py"
    path.write_text(program)
    return by(["-m", "tf_lso", "run", *options, str(path)], **environment)


@pytest.mark.parametrize(
    ("function", "changed", "unchanged"),
    [
        (like_lib.aggregate_gradients, ["2.0", "2.3.4"], ["2.4", None]),
        (earlier_keras2.add_schedules, ["2.0", "2.4.4"], ["2.5"]),
        (earlier_keras2.predict_classes, ["2.0", "2.5"], ["2.6"]),
        (earlier_keras2.ignore_dataset_options, ["2.0", "2.6"], ["2.7"]),
        (earlier_keras2.add_layer_methods, ["2.0", "2.8"], ["2.9"]),
        (earlier_keras2.log_first_replica, ["2.0", "2.10"], ["2.11"]),
        (like_lib.use_legacy_optimizers, ["2.0", "2.10.0"], ["2.11", "2.15.1", None]),
        (earlier_keras2.show_scale_as_tensor, ["2.4", "2.15"], ["2.3.4", "2.16"]),
        (earlier_keras2.say_version, ["2.0", "2.15"], ["2.16", None]),
    ],
)
def test_each_change_is_for_some_versions(function, changed, unchanged):
    (row,) = [patch for patch in PATCHES if patch.function is function]
    assert all(like_lib.is_in(like, row.when) for like in changed)
    assert not any(like_lib.is_in(like, row.when) for like in unchanged)


@pytest.mark.slow
@pytest.mark.keras3
def test_like_2_16_chooses_keras_3_although_the_environment_chooses_keras_2(tmp_path):
    done = run(
        tmp_path, PRINT_MODULE_OF_ADAM, "--like", "2.16", TF_USE_LEGACY_KERAS="1"
    )
    assert done.stdout.startswith("keras."), done.stderr


EXPECTED = "a version of TensorFlow from 2.0 to 2.21, such as '2.4', but got: {!r}."


@pytest.mark.parametrize("like", ["2", "1.15", "2.99", "new", ""])
def test_a_str_that_is_not_a_version_is_refused(like):
    with pytest.raises(ValueError) as caught:
        like_lib.choose(like)
    assert str(caught.value) == f"'like' must be {EXPECTED.format(like)}"


def test_the_command_refuses_what_is_not_a_version(tmp_path):
    done = run(tmp_path, PRINT_MODULE_OF_ADAM, "--like", "1.15")
    assert done.returncode == 2
    assert EXPECTED.format("1.15") in done.stderr


def test_a_number_is_refused():
    with pytest.raises(TypeError, match=r"must be a str, .* but got: 2\.4"):
        like_lib.choose(2.4)


@pytest.mark.skipif(HAS_KERAS3, reason="TensorFlow has Keras 3")
def test_like_2_16_is_refused_if_tensorflow_has_no_keras_3():
    with pytest.raises(ImportError, match=r"which TensorFlow 2\.\d+ does not have"):
        like_lib.choose("2.16")


@pytest.mark.keras3
def test_a_tensorflow_that_was_imported_with_another_keras_is_refused(monkeypatch):
    with pytest.raises(RuntimeError, match=r"tf-lso run --like 2\.4"):
        like_lib.choose("2.4")
    like_lib.choose("2.16")
    monkeypatch.setattr(
        like_lib.keras_versions, "package_of_tensorflow", lambda: "tf_keras"
    )
    with pytest.raises(RuntimeError, match="means Keras 3, but TensorFlow was already"):
        like_lib.choose("2.16")


@pytest.mark.keras3
def test_keras_3_is_chosen_although_the_environment_chooses_keras_2(monkeypatch):
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")
    # TensorFlow is not imported yet.
    monkeypatch.setattr(like_lib, "sys", types.SimpleNamespace(modules={}))
    like_lib.choose("2.16")
    assert os.environ["TF_USE_LEGACY_KERAS"] == "0"


@pytest.fixture
def ledger():
    ledger = Ledger()
    yield ledger
    ledger.undo()


def test_the_names_of_optimizers_mean_legacy_classes_unless_the_program_asks(ledger):
    like_lib.use_legacy_optimizers(keras2, ledger)
    legacy, optimizers = FAMILIES["legacy"], keras2.optimizers
    assert optimizers.SGD is legacy.SGD and optimizers.Optimizer is legacy.Optimizer
    config = {"class_name": "SGD", "config": {}}
    for make in (optimizers.get, optimizers.deserialize):
        assert type(make(config)) is legacy.SGD
        newer = make(config, use_legacy_optimizer=False)
        assert not isinstance(newer, legacy.Optimizer)


def test_aggregated_gradients_come_without_their_variables(ledger):
    like_lib.aggregate_gradients(keras2, ledger)
    optimizer, x = FAMILIES["legacy"].SGD(0.5), tf.Variable(3.0)
    (gradient,) = optimizer._aggregate_gradients([(tf.constant(2.0), x)])
    (gradient,) = optimizer._clip_gradients([gradient])
    optimizer.apply_gradients([(gradient, x)])
    assert float(x) == 2.0


@pytest.mark.keras3
def test_a_module_that_imported_only_a_function_of_keras_3_is_named(monkeypatch):
    library = types.SimpleNamespace(to_categorical=keras.utils.to_categorical)
    modules = {"keras": sys.modules["keras"], "library": library}
    monkeypatch.setattr(like_lib, "sys", types.SimpleNamespace(modules=modules))
    with pytest.raises(RuntimeError, match="the module 'library' has already"):
        like_lib.choose("2.4")


@pytest.mark.keras3
def test_without_tf_keras_the_error_shows_how_to_install_it():
    program = "import tf_lso\ntf_lso.install(like='2.4')\n"
    done = processes.start(["-c", processes.hiding("tf_keras") + program])
    assert "like='2.4' makes tf.keras the package tf_keras" in done.stderr
    assert 'pip install "tf-keras==2.' in done.stderr


# Installs the Keras of 2.4 twice, and shows that another version is refused. After the block,
# the optimizers are no longer legacy.
INSTALL_LIKE_2_4 = """
import tf_lso
with tf_lso.install(like="2.4"):
    import tensorflow as tf
    from tf_lso.optimizers import config
    from tensorflow.keras.optimizers import Adam
    optimizers, legacy = tf.keras.optimizers, tf.keras.optimizers.legacy
    sgd = optimizers.SGD
    print(sgd is legacy.SGD, hasattr(sgd, "_clip_gradients"))
    print(Adam is optimizers.Adam is tf.optimizers.Adam is legacy.Adam)
    print(optimizers.Optimizer is legacy.Optimizer)
    print(type(optimizers.get({"class_name": "Adam", "config": {}})) is legacy.Adam)
    print(Adam(lr=0.25, decay=0.5)._get_hyper("decay").numpy())
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
    model.compile("rmsprop", "mse")
    print(type(model.optimizer) is legacy.RMSprop)
    tf_lso.install()
    tf_lso.install(like="2.4")
    try:
        tf_lso.install(like="2.12")
    except RuntimeError as error:
        print("tf_lso.uninstall()" in str(error))
    wrapper = tf.keras.mixed_precision.experimental.LossScaleOptimizer
    scale = wrapper(sgd(), 8).loss_scale
    print(type(tf.keras.backend.get_value(scale)).__name__)
    # A config of a newer optimizer still makes a newer optimizer.
    for name, is_legacy in ("SGD", True), ("SGD", False), ("AdamW", False):
        of_file = {"class_name": name, "config": {"is_legacy_optimizer": is_legacy}}
        optimizer = config.deserialize(of_file)
        print(type(optimizer).__name__, isinstance(optimizer, legacy.Optimizer))
print(tf.keras.optimizers.SGD is legacy.SGD)
print(type(tf.keras.optimizers.get("sgd")) is legacy.SGD)
"""


@pytest.mark.slow
def test_one_program_installs_several_versions_one_after_another():
    program = INSTALL_LIKE_2_4
    program += 'with tf_lso.install(like="2.3"):'
    program += textwrap.indent(STEP_OF_2_3, "    ")
    program += 'with tf_lso.install(like="2.11"):'
    program += textwrap.indent(PRINT_MODULE_OF_ADAM, "    ")
    lines = processes.run(program)
    assert lines[:13] == [
        "True False",  # `SGD` is legacy, and has no `_clip_gradients`, which 2.3 had
        *("True", "True", "True", "0.5", "True"),  # also by other names
        "True",  # the refusal names `tf_lso.uninstall()`
        "float32",  # `loss_scale` was a tensor since 2.4
        *("SGD True", "SGD False", "AdamW False"),
        *("False", "False"),  # after the block
    ]
    # TensorFlow 2.3.4 printed these values.
    assert lines[13:17] == [
        *("[0.515625 0.6875  ]", "[-0.01171875 -0.015625  ]"),
        *("[2.68125 3.575  ]", "[2.540625 3.3875  ]"),
    ]
    (module,) = lines[17:]
    assert module.startswith(f"{KERAS2_PACKAGE}.") and "legacy" not in module
