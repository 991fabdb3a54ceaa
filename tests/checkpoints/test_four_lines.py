"""The four lines: `restore` and `model.save` make a file of Keras 3 of any old one."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tf_lso
from tests.checkpoints import artifacts
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
IDS = ["-".join(source) for source in SOURCES]


def file_of(version, case, name):
    return artifacts.folder(version) / case / name


def expected(version, case, name):
    kind = "checkpoint" if name == "ckpt-1" else "compiled"
    return artifacts.cases(version)[case][kind]


def network():
    return artifacts.network(keras)


def holds(model, recorded):
    return all(
        np.array_equal(a, artifacts.numbers(b))
        for a, b in zip(model.get_weights(), recorded["weights"], strict=True)
    )


def goes_on(version, case, name, model, opt):
    """Five steps later the weights are the writer's own."""
    data = artifacts.inputs()
    xs = data["X_clean" if artifacts.cases(version)[case]["clean"] else "X"][5:]
    artifacts.train(model, opt, xs, data["Y"][5:], compiled=False)
    if version != "TF2.1.4":  # see writers.py: skipped steps
        after = expected(version, case, name)["after10"]
        assert artifacts.close(model.get_weights(), after["weights"])
        assert int(numpy(opt.iterations)) == after["iterations"]


def restored(version, case, name):
    """A model of Keras 3, compiled, and the report of its restore."""
    model = network()
    model.compile(artifacts.optimizer(artifacts.cases(version)[case], "keras3"), "mse")
    path = file_of(version, case, name)
    report = checkpoints.restore(path, model=model, optimizer=model.optimizer)
    assert report.complete
    return model, report


# What Keras itself saves and loads changes most from version to version.
_TO_KERAS = [
    pytest.param(*source, marks=[pytest.mark.core] * (source[0] == "TF2.4.4"))
    for source in SOURCES
]


@pytest.mark.parametrize(("version", "case", "name"), _TO_KERAS, ids=IDS)
def test_to_keras(version, case, name, tmp_path):
    made, report = restored(version, case, name)
    assert ("model.save(" in str(report)) == (name != "model.keras")
    made.save(tmp_path / "new.keras")
    model = keras.models.load_model(tmp_path / "new.keras")
    before = expected(version, case, name)["after5"]
    opt = model.optimizer
    assert holds(model, before)
    assert int(numpy(opt.iterations)) == before["iterations"]
    assert isinstance(opt, tf_lso.LossScaleOptimizer) == (case != OLD)
    if name in ("ckpt-1", "savedmodel"):
        scale = (before["loss_scale"], before["counter"])
        assert artifacts.scale_of(opt) == scale
    goes_on(version, case, name, model, opt)


def test_state_is_never_left_out_silently():
    source = file_of("TF2.15.1", V2, "model.keras")  # the real version left it out
    model = network()
    opt = artifacts.optimizer(artifacts.cases("TF2.15.1")[V2], "keras3")
    with pytest.raises(checkpoints.CheckpointError, match="missing in the file"):
        checkpoints.restore(source, model=model, optimizer=opt)
    report = checkpoints.restore(source, model=model, optimizer=opt, partial=True)
    assert "optimizer/iterations" in report.missing


def nested(of):
    """A model of one's own class, whose inner model is made before its other layer."""

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
    """The file's order of the variables is not the model's: two kernels of one shape."""
    old = nested(tf_keras)
    opt = tf_lso.LossScaleOptimizer(tf_keras.optimizers.legacy.Adam(0.01))
    artifacts.train(old, opt, *np.ones((2, 3, 4, 3), "float32"), compiled=False)
    path = tf.train.Checkpoint(model=old, optimizer=opt).save(str(tmp_path / "old"))
    model = nested(keras)
    new = tf_lso.LossScaleOptimizer(keras.optimizers.Adam(0.01))
    assert checkpoints.restore(path, model=model, optimizer=new).complete
    for of_model in ("first", "block"):
        layers = [getattr(m, of_model) for m in (old, model)]
        assert all(map(np.array_equal, *(layer.get_weights() for layer in layers)))
    for variable, m, v in zip(
        model.trainable_variables,
        new.inner_optimizer._momentums,
        new.inner_optimizer._velocities,
        strict=True,
    ):
        (theirs,) = [w for w in old.weights if np.array_equal(w, variable)]
        assert np.array_equal(m, opt.inner_optimizer.get_slot(theirs, "m"))
        assert np.array_equal(v, opt.inner_optimizer.get_slot(theirs, "v"))
