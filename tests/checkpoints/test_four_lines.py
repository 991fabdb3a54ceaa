"""`restore` and `model.save` convert any old file to a .keras file of Keras 3."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tf_lso
from tests.checkpoints import artifacts
from tests.checkpoints.helpers import assert_equal
from tests.families import numpy
from tf_lso import checkpoints

EXPERIMENTAL = "experimental-v2-Adam-dynamic"
STABLE, NEW, BARE = "stable-v2-Adam-dynamic", "stable-new-Adam-dynamic", "bare-v2-SGD"


def new_model_and_optimizer(version, case):
    """Return {"model": a compiled model of Keras 3, "optimizer": its optimizer}."""
    model = artifacts.network(keras)
    model.compile(
        artifacts.make_optimizer(artifacts.cases(version)[case], "keras3"), "mse"
    )
    return {"model": model, "optimizer": model.optimizer}


@pytest.mark.parametrize(
    ("version", "case", "name"),
    [
        ("TF2.1.4", EXPERIMENTAL, "ckpt-1"),
        # Core tests, since loading and saving changes most between versions of Keras.
        pytest.param("TF2.4.4", STABLE, "ckpt-1", marks=pytest.mark.core),
        pytest.param("TF2.4.4", STABLE, "model.h5", marks=pytest.mark.core),
        ("TF2.8.4", BARE, "model.h5"),
        ("TF2.15.1", NEW, "model.keras"),
        ("TF2.15.1", NEW, "savedmodel"),
    ],
)
def test_an_old_file_becomes_a_keras_file(version, case, name, tmp_path):
    old = new_model_and_optimizer(version, case)
    report = checkpoints.restore(artifacts.path_of(version, case, name), **old)
    assert report.complete
    old["model"].save(tmp_path / "new.keras")
    model = keras.models.load_model(tmp_path / "new.keras")
    opt, expected = model.optimizer, artifacts.expected(version, case, name)
    assert isinstance(opt, tf_lso.LossScaleOptimizer) == (case != BARE)
    has_scale = name in ("ckpt-1", "savedmodel")
    artifacts.assert_holds(model, opt, expected["after5"], has_scale)
    artifacts.go_on(version, case, model, opt)
    if version != "TF2.1.4":  # see the differences in test_restore.py
        after = expected["after10"]
        assert artifacts.close(model.get_weights(), after["weights"])
        assert int(numpy(opt.iterations)) == after["iterations"]


def make_nested_model(keras_module):
    """Return a subclassed model that makes its inner model before its other layer."""

    layers = keras_module.layers

    class Nested(keras_module.Model):
        def __init__(self):
            super().__init__()
            self.block = keras_module.Sequential([layers.Dense(3, name="inner")])
            self.first = layers.Dense(3, name="first")

        def call(self, x):
            return self.block(self.first(x))

    model = Nested()
    model(np.zeros((1, 3), "float32"))
    return model


def test_layers_of_a_nested_model_are_not_confused(tmp_path):
    """The file and the model have two kernels of the same shape in different orders."""
    old_model = make_nested_model(tf_keras)
    old = tf_lso.LossScaleOptimizer(tf_keras.optimizers.legacy.Adam(0.01))
    xs = ys = np.ones((3, 4, 3), "float32")  # three batches
    artifacts.train(old_model, old, xs, ys, compiled=False)
    path = tf.train.Checkpoint(model=old_model, optimizer=old).save(
        str(tmp_path / "old")
    )
    model = make_nested_model(keras)
    opt = tf_lso.LossScaleOptimizer(keras.optimizers.Adam(0.01))
    assert checkpoints.restore(path, model=model, optimizer=opt).complete
    assert_equal(model.first.get_weights(), old_model.first.get_weights())
    assert_equal(model.block.get_weights(), old_model.block.get_weights())
    for variable in model.trainable_variables:
        (same,) = [w for w in old_model.weights if np.array_equal(w, variable)]
        for slot in ("m", "v"):
            value = opt.get_slot(variable, slot)
            assert np.array_equal(value, old.get_slot(same, slot))
