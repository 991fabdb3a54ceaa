"""Under `install()`, TensorFlow refuses checkpoints that it would silently restore in part.

TensorFlow restores all other checkpoints as it does without `install()`.
"""

import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.checkpoints import artifacts
from tests.families import (
    CHECKPOINTED,
    CURRENT,
    FAMILIES,
    KERASES,
    keras,
    needs_keras3,
    numpy,
)
from tests.generation import NO_CHECKPOINT
from tf_lso import checkpoints

OLD = [
    ("TF2.1.4", "experimental-v2-Adam-dynamic"),
    ("TF2.4.4", "stable-v2-Adam-dynamic"),
    ("TF2.15.1", "stable-new-Adam-dynamic"),
]
PATH = str(artifacts.path_of(*OLD[1]))


@pytest.fixture
def installed():
    with tf_lso.install():
        yield


def made(family, built=True):
    model = artifacts.network(KERASES[family])
    optimizer = tf_lso.LossScaleOptimizer(FAMILIES[family].Adam(0.01))
    if built:
        optimizer.build(model.trainable_variables)
    return model, optimizer


def values(model, optimizer):
    variables = [*model.weights, *optimizer.variables, optimizer.loss_scale]
    return [np.array(numpy(variable)) for variable in variables]


# --- Checkpoints that are refused.


def by_restore(saved, path, folder):
    saved.restore(path)


def by_read(saved, path, folder):
    saved.read(path)


def by_manager(saved, path, folder):
    shutil.copytree(artifacts.pathlib.Path(path).parent, folder, dirs_exist_ok=True)
    (folder / "checkpoint").write_text('model_checkpoint_path: "ckpt-1"\n')
    tf.train.CheckpointManager(saved, str(folder), 2).restore_or_initialize()


@needs_keras3
@NO_CHECKPOINT
@pytest.mark.parametrize("built", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("restore", [by_restore, by_read, by_manager])
@pytest.mark.parametrize(("version", "case"), OLD)
def test_a_checkpoint_of_keras_2_is_refused_and_nothing_changes(
    version, case, restore, built, installed, tmp_path
):
    model, optimizer = made("keras3", built)
    before = values(model, optimizer)
    path = str(artifacts.path_of(version, case))
    saved = tf.train.Checkpoint(model=model, optimizer=optimizer)
    with pytest.raises(checkpoints.CheckpointError) as error:
        restore(saved, path, tmp_path)
    assert "tf_lso.checkpoints.restore('" in str(error.value)
    assert "tf-lso run --like 2.4" in str(error.value)
    for was, now in zip(before, values(model, optimizer), strict=True):
        np.testing.assert_array_equal(was, now)
    # The call that the message recommends restores the whole checkpoint.
    assert checkpoints.restore(path, model=model, optimizer=optimizer).complete


# Pairs of different families: the one that writes a checkpoint, and the one that reads it.
OTHERS = [
    pytest.param(a, b, marks=NO_CHECKPOINT if "keras3" in (a, b) else ())
    for a in FAMILIES
    for b in FAMILIES
    if a != b
]


@pytest.mark.parametrize(("source", "target"), OTHERS)
def test_a_checkpoint_of_another_family_is_refused(source, target, installed, tmp_path):
    old, theirs = made(source)
    path = tf.train.Checkpoint(model=old, optimizer=theirs).save(str(tmp_path / "c"))
    model, optimizer = made(target)
    before = values(model, optimizer)
    saved = tf.train.Checkpoint(model=model, optimizer=optimizer)
    with pytest.raises(checkpoints.CheckpointError, match="was written by"):
        saved.restore(path)
    for was, now in zip(before, values(model, optimizer), strict=True):
        np.testing.assert_array_equal(was, now)


@needs_keras3
def test_the_optimizer_of_a_compiled_model_counts(installed, tmp_path):
    model = artifacts.network(keras)
    model.compile(keras.optimizers.Adam(), "mse")
    old = artifacts.network(KERASES["keras2"])
    old.compile(FAMILIES["new"].Adam(), "mse")
    path = tf.train.Checkpoint(net=old).save(str(tmp_path / "child"))
    with pytest.raises(checkpoints.CheckpointError, match="was written by"):
        tf.train.Checkpoint(net=model).restore(path)
    path = tf.train.Checkpoint(old).save(str(tmp_path / "root"))
    with pytest.raises(checkpoints.CheckpointError, match="was written by"):
        tf.train.Checkpoint(model).restore(path)


def subclassed(of, last="last"):
    """Return a model whose layers are the attributes `first` and the attribute named `last`."""

    class Model(of.Model):
        def __init__(self):
            super().__init__()
            self.first = of.layers.Dense(2)
            setattr(self, last, of.layers.Dense(1))

        def call(self, inputs):
            return getattr(self, last)(self.first(inputs))

    return Model()


@needs_keras3
@pytest.mark.parametrize("make", [artifacts.network, subclassed])
def test_a_model_alone(make, installed, tmp_path):
    old, model = make(KERASES["keras2"]), make(keras)
    for one in (old, model):
        one(tf.ones((1, 3)))
    path = tf.train.Checkpoint(model=old).save(str(tmp_path / "ckpt"))
    with pytest.raises(checkpoints.CheckpointError, match="was written by Keras 2"):
        tf.train.Checkpoint(model=model).restore(path)


# --- Checkpoints that TensorFlow restores.


@pytest.mark.parametrize("family", CHECKPOINTED)
def test_a_familys_own_checkpoint(family, installed, tmp_path, caplog):
    model, optimizer = made(family)
    saved = tf.train.Checkpoint(model=model, optimizer=optimizer)
    path = saved.save(str(tmp_path / "ckpt"))
    optimizer.iterations = 5
    saved.restore(path).assert_consumed()
    assert int(numpy(optimizer.iterations)) == 0
    assert "tf_lso" not in caplog.text


@needs_keras3
def test_a_part_of_a_model_of_keras_3(installed, tmp_path):
    old, model = subclassed(keras), subclassed(keras, last="other")
    for one in (old, model):
        one(tf.ones((1, 3)))
    path = tf.train.Checkpoint(model=old).save(str(tmp_path / "ckpt"))
    tf.train.Checkpoint(model=model).restore(path).expect_partial()
    np.testing.assert_array_equal(old.get_weights()[0], model.get_weights()[0])


@needs_keras3
def test_a_layer_of_the_programs_own_that_keras_3_wrote(installed, tmp_path):
    """The layer's attribute is called `kernel`, as in the layers of Keras 2."""

    class Own(keras.layers.Layer):
        def build(self, shape):
            self.kernel = self.add_weight(name="kernel", shape=(3, 1))

        def call(self, inputs):
            return inputs @ self.kernel

    old, new = Own(), Own()
    for one in (old, new):
        one(tf.ones((1, 3)))
    path = tf.train.Checkpoint(layer=old).save(str(tmp_path / "ckpt"))
    tf.train.Checkpoint(layer=new).restore(path).assert_existing_objects_matched()
    np.testing.assert_array_equal(old.get_weights()[0], new.get_weights()[0])


def test_other_objects(installed, tmp_path):
    x = tf.Variable(3.0)
    saved = tf.train.Checkpoint(x=x)
    path = saved.save(str(tmp_path / "ckpt"))
    x.assign(0.0)
    saved.restore(path).assert_consumed()
    assert float(x) == 3.0


@NO_CHECKPOINT
def test_other_paths(installed, tmp_path):
    model, optimizer = made(CURRENT)
    saved = tf.train.Checkpoint(model=model, optimizer=optimizer)
    saved.restore(None)
    with pytest.raises(tf.errors.NotFoundError):
        saved.restore(str(tmp_path / "none"))


@needs_keras3
@NO_CHECKPOINT
@pytest.mark.parametrize("wraps", [True, False])
def test_a_restore_before_the_first_batch_is_as_without_install(wraps, tmp_path):
    """TensorFlow's guide restores so. Keras 3 itself does not restore everything then."""

    def started(folder):
        model = subclassed(keras)
        optimizer = keras.optimizers.Adam(0.1)
        optimizer = tf_lso.LossScaleOptimizer(optimizer) if wraps else optimizer
        saved = tf.train.Checkpoint(model=model, optimizer=optimizer)
        manager = tf.train.CheckpointManager(saved, str(folder), 1)
        return model, optimizer, saved, manager

    def trained(model, optimizer):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(tf.ones((2, 3))) ** 2)
            loss = optimizer.get_scaled_loss(loss) if wraps else loss
        gradients = tape.gradient(loss, model.trainable_variables)
        if wraps:
            gradients = optimizer.get_unscaled_gradients(gradients)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    def second_start():
        """Return the error as text, or the counts of trainable variables and of steps."""
        model, optimizer, saved, manager = started(tmp_path)
        try:
            saved.restore(manager.latest_checkpoint)
            trained(model, optimizer)
        except Exception as error:
            print(error)
            return re.sub(r"\d+", "N", repr(error))
        return len(model.trainable_variables), int(numpy(optimizer.iterations))

    model, optimizer, _, manager = started(tmp_path)
    trained(model, optimizer)
    manager.save()
    alone = second_start()
    with tf_lso.install():
        assert second_start() == alone


def test_without_install_tf_keras_names_what_there_is():
    model, optimizer = made("new")
    saved = tf.train.Checkpoint(model=model, optimizer=optimizer)
    with pytest.raises(ValueError, match=r"legacy\.Adam\.") as error:
        saved.restore(PATH)
    assert "tf_lso.checkpoints.restore(path" in str(error.value)
    assert "LossScaleOptimizer" not in str(error.value)
