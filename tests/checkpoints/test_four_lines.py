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

V2, NEW, OLD = "stable-v2-Adam-dynamic", "stable-new-Adam-dynamic", "bare-v2-SGD"
SOURCES = [
    ("TF2.1.4", "experimental-v2-Adam-dynamic", "ckpt-1"),
    ("TF2.1.4", "experimental-v2-Adam-dynamic", "model.h5"),
    ("TF2.4.4", V2, "ckpt-1"),
    ("TF2.4.4", V2, "model.h5"),
    ("TF2.8.4", OLD, "model.h5"),
    ("TF2.15.1", NEW, "ckpt-1"),
    ("TF2.15.1", NEW, "model.h5"),
    ("TF2.15.1", NEW, "model.keras"),
    ("TF2.15.1", NEW, "savedmodel"),
    ("TF2.15.1", V2, "savedmodel"),
]


# The cases of TensorFlow 2.4 are core tests, since loading and saving changes most between
# versions of Keras.
_TO_KERAS = [
    pytest.param(
        *source,
        marks=[pytest.mark.core] * (source[0] == "TF2.4.4"),
        id="-".join(source),
    )
    for source in SOURCES
]


def made(version, case):
    """Return a compiled model of Keras 3 and its optimizer."""
    model = artifacts.network(keras)
    model.compile(artifacts.optimizer(artifacts.cases(version)[case], "keras3"), "mse")
    return {"model": model, "optimizer": model.optimizer}


@pytest.mark.parametrize(("version", "case", "name"), _TO_KERAS)
def test_to_keras(version, case, name, tmp_path):
    old = made(version, case)
    report = checkpoints.restore(artifacts.path_of(version, case, name), **old)
    assert report.complete
    old["model"].save(tmp_path / "new.keras")
    model = keras.models.load_model(tmp_path / "new.keras")
    opt, expected = model.optimizer, artifacts.expected(version, case, name)
    assert isinstance(opt, tf_lso.LossScaleOptimizer) == (case != OLD)
    has_scale = name in ("ckpt-1", "savedmodel")
    artifacts.assert_holds(model, opt, expected["after5"], has_scale)
    artifacts.go_on(version, case, model, opt)
    if version != "TF2.1.4":  # see writers.py: skipped steps
        after = expected["after10"]
        assert artifacts.close(model.get_weights(), after["weights"])
        assert int(numpy(opt.iterations)) == after["iterations"]


def test_state_is_never_left_out_silently():
    path = artifacts.path_of("TF2.15.1", V2, "model.keras")  # the real version did
    new = made("TF2.15.1", V2)
    with pytest.raises(checkpoints.CheckpointError, match="missing in the file"):
        checkpoints.restore(path, **new)
    report = checkpoints.restore(path, **new, partial=True)
    assert "optimizer/iterations" in report.missing


def nested(of):
    """Return a subclassed model that makes its inner model before its other layer."""

    class Nested(of.Model):
        def __init__(self):
            super().__init__()
            self.block = of.Sequential([of.layers.Dense(3, name="inner")])
            self.first = of.layers.Dense(3, name="first")

        def call(self, x):
            return self.block(self.first(x))

    model = Nested()
    model(np.zeros((1, 3), "float32"))
    return model


def test_a_nested_model_is_not_guessed(tmp_path):
    """The file and the model have two kernels of the same shape in different orders."""
    old = nested(tf_keras)
    opt = tf_lso.LossScaleOptimizer(tf_keras.optimizers.legacy.Adam(0.01))
    artifacts.train(old, opt, *np.ones((2, 3, 4, 3), "float32"), compiled=False)
    path = tf.train.Checkpoint(model=old, optimizer=opt).save(str(tmp_path / "old"))
    model = nested(keras)
    new = tf_lso.LossScaleOptimizer(keras.optimizers.Adam(0.01))
    assert checkpoints.restore(path, model=model, optimizer=new).complete
    for name in ("first", "block"):
        layers = [getattr(m, name) for m in (model, old)]
        assert_equal(*(layer.get_weights() for layer in layers))
    for variable in model.trainable_variables:
        (theirs,) = [w for w in old.weights if np.array_equal(w, variable)]
        for slot in ("m", "v"):
            assert np.array_equal(
                new.get_slot(variable, slot), opt.get_slot(theirs, slot)
            )
