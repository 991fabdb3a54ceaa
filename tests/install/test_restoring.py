"""Under `install()`, TensorFlow refuses checkpoints that it would silently restore in part.

TensorFlow restores all other checkpoints as it does without `install()`.
"""

import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.checkpoints import artifacts
from tests.families import (
    CHECKPOINTED,
    FAMILIES,
    KERASES,
    keras,
    needs_keras3,
    numpy,
)
from tests.generation import NO_CHECKPOINT
from tf_lso import checkpoints


@pytest.fixture
def installed():
    with tf_lso.install():
        yield


def model_and_optimizer(family, built=True):
    model = artifacts.network(KERASES[family])
    optimizer = tf_lso.LossScaleOptimizer(FAMILIES[family].Adam(0.01))
    if built:
        optimizer.build(model.trainable_variables)
    return model, optimizer


def values(model, optimizer):
    variables = [*model.weights, *optimizer.variables, optimizer.loss_scale]
    return [np.array(numpy(variable)) for variable in variables]


# --- Checkpoints that are refused.


def by_restore(checkpoint, path, folder):
    checkpoint.restore(path)


def by_read(checkpoint, path, folder):
    checkpoint.read(path)


def by_manager(checkpoint, path, folder):
    """Restore a copy of a checkpoint by the CheckpointManager of `folder`."""
    shutil.copytree(pathlib.Path(path).parent, folder, dirs_exist_ok=True)
    (folder / "checkpoint").write_text('model_checkpoint_path: "ckpt-1"\n')
    tf.train.CheckpointManager(checkpoint, str(folder), 2).restore_or_initialize()


def assert_same_values(expected, found):
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)


@needs_keras3
@NO_CHECKPOINT
@pytest.mark.parametrize(
    ("version", "case", "restore", "built"),
    [
        ("TF2.1.4", "experimental-v2-Adam-dynamic", by_restore, True),
        ("TF2.4.4", "stable-v2-Adam-dynamic", by_read, False),
        ("TF2.15.1", "stable-new-Adam-dynamic", by_manager, True),
    ],
)
def test_a_checkpoint_of_keras_2_is_refused_and_nothing_changes(
    version, case, restore, built, installed, tmp_path
):
    model, optimizer = model_and_optimizer("keras3", built)
    before = values(model, optimizer)
    path = str(artifacts.path_of(version, case))
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
    with pytest.raises(checkpoints.CheckpointError) as error:
        restore(checkpoint, path, tmp_path)
    assert "tf_lso.checkpoints.restore('" in str(error.value)
    assert "tf-lso run --like 2.4" in str(error.value)
    assert_same_values(before, values(model, optimizer))
    # The call that the message recommends restores the whole checkpoint.
    assert checkpoints.restore(path, model=model, optimizer=optimizer).complete


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        ("legacy", "new"),
        ("new", "legacy"),
        pytest.param("new", "keras3", marks=NO_CHECKPOINT),
        pytest.param("keras3", "legacy", marks=NO_CHECKPOINT),
    ],
)
def test_a_checkpoint_of_another_family_is_refused(writer, reader, installed, tmp_path):
    model, optimizer = model_and_optimizer(writer)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
    path = checkpoint.save(str(tmp_path / "ckpt"))
    model, optimizer = model_and_optimizer(reader)
    before = values(model, optimizer)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
    with pytest.raises(checkpoints.CheckpointError, match="was written by"):
        checkpoint.restore(path)
    assert_same_values(before, values(model, optimizer))


@needs_keras3
def test_a_keras_2_checkpoint_of_a_compiled_model_is_refused(installed, tmp_path):
    keras2_model = artifacts.network(KERASES["keras2"])
    keras2_model.compile(FAMILIES["new"].Adam(), "mse")
    keras3_model = artifacts.network(keras)
    keras3_model.compile(keras.optimizers.Adam(), "mse")
    path = tf.train.Checkpoint(net=keras2_model).save(str(tmp_path / "child"))
    with pytest.raises(checkpoints.CheckpointError, match="was written by"):
        tf.train.Checkpoint(net=keras3_model).restore(path)
    path = tf.train.Checkpoint(keras2_model).save(str(tmp_path / "root"))
    with pytest.raises(checkpoints.CheckpointError, match="was written by"):
        tf.train.Checkpoint(keras3_model).restore(path)


def subclassed(keras_module, last="last"):
    """Return a model whose layers are the attributes `first` and the attribute named `last`."""

    class Model(keras_module.Model):
        def __init__(self):
            super().__init__()
            self.first = keras_module.layers.Dense(2)
            setattr(self, last, keras_module.layers.Dense(1))

        def call(self, inputs):
            return getattr(self, last)(self.first(inputs))

    return Model()


@needs_keras3
@pytest.mark.parametrize("make_model", [artifacts.network, subclassed])
def test_a_keras_2_checkpoint_without_optimizer_is_refused(
    make_model, installed, tmp_path
):
    keras2_model, keras3_model = make_model(KERASES["keras2"]), make_model(keras)
    for model in (keras2_model, keras3_model):
        model(tf.ones((1, 3)))
    path = tf.train.Checkpoint(model=keras2_model).save(str(tmp_path / "ckpt"))
    with pytest.raises(checkpoints.CheckpointError, match="was written by Keras 2"):
        tf.train.Checkpoint(model=keras3_model).restore(path)


# --- Checkpoints that TensorFlow restores.


@pytest.mark.parametrize("family", CHECKPOINTED)
def test_a_checkpoint_of_the_same_family_is_restored(
    family, installed, tmp_path, caplog
):
    model, optimizer = model_and_optimizer(family)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
    path = checkpoint.save(str(tmp_path / "ckpt"))
    optimizer.iterations = 5
    checkpoint.restore(path).assert_consumed()
    assert int(numpy(optimizer.iterations)) == 0
    assert "tf_lso" not in caplog.text


def test_a_checkpoint_of_2_1_is_restored_into_a_legacy_optimizer(installed):
    version, case = "TF2.1.4", "experimental-v2-Adam-dynamic"
    model = artifacts.network(KERASES["legacy"])
    optimizer = artifacts.make_optimizer(artifacts.cases(version)[case], "keras2")
    optimizer.build(model.trainable_variables)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
    checkpoint.restore(str(artifacts.path_of(version, case)))
    state = artifacts.expected(version, case)["after5"]
    artifacts.assert_holds(model, optimizer, state)


@needs_keras3
def test_the_equal_layers_of_another_keras_3_model_are_restored(installed, tmp_path):
    saved, restored = subclassed(keras), subclassed(keras, last="other")
    for model in (saved, restored):
        model(tf.ones((1, 3)))
    path = tf.train.Checkpoint(model=saved).save(str(tmp_path / "ckpt"))
    tf.train.Checkpoint(model=restored).restore(path).expect_partial()
    np.testing.assert_array_equal(saved.get_weights()[0], restored.get_weights()[0])


@needs_keras3
def test_a_custom_keras_3_layer_with_a_keras_2_name_is_restored(installed, tmp_path):
    """The layer's attribute is called `kernel`, as in the layers of Keras 2."""

    class Custom(keras.layers.Layer):
        def build(self, shape):
            self.kernel = self.add_weight(name="kernel", shape=(3, 1))

        def call(self, inputs):
            return inputs @ self.kernel

    saved, restored = Custom(), Custom()
    for layer in (saved, restored):
        layer(tf.ones((1, 3)))
    path = tf.train.Checkpoint(layer=saved).save(str(tmp_path / "ckpt"))
    status = tf.train.Checkpoint(layer=restored).restore(path)
    status.assert_existing_objects_matched()
    np.testing.assert_array_equal(saved.get_weights()[0], restored.get_weights()[0])


def test_a_checkpoint_without_keras_objects_is_restored(installed, tmp_path):
    x, part = tf.Variable(3.0), tf.Module()
    part.itself = part
    checkpoint = tf.train.Checkpoint(x=x, part=part)
    path = checkpoint.save(str(tmp_path / "ckpt"))
    x.assign(0.0)
    checkpoint.restore(None)  # there is no checkpoint yet
    assert float(x) == 0.0
    checkpoint.restore(path).assert_consumed()
    assert float(x) == 3.0
    with pytest.raises(tf.errors.NotFoundError):
        checkpoint.restore(str(tmp_path / "none"))


@needs_keras3
@NO_CHECKPOINT
def test_a_restore_before_the_first_batch_is_left_to_tensorflow(installed, tmp_path):
    """TensorFlow's guide restores so. Keras 3 itself does not restore everything then."""
    saved, restored = subclassed(keras), subclassed(keras)
    saved(tf.ones((1, 3)))
    optimizer = tf_lso.LossScaleOptimizer(keras.optimizers.Adam(), initial_scale=8)
    optimizer.build(saved.trainable_variables)
    checkpoint = tf.train.Checkpoint(model=saved, optimizer=optimizer)
    path = checkpoint.save(str(tmp_path / "ckpt"))
    optimizer = tf_lso.LossScaleOptimizer(keras.optimizers.Adam())
    checkpoint = tf.train.Checkpoint(model=restored, optimizer=optimizer)
    checkpoint.restore(path).expect_partial()
    assert float(optimizer.loss_scale) == 8


def test_without_install_the_error_of_tf_keras_recommends_tf_lso():
    model, optimizer = model_and_optimizer("new")
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
    with pytest.raises(ValueError, match=r"legacy\.Adam\.") as error:
        checkpoint.restore(str(artifacts.path_of("TF2.4.4", "stable-v2-Adam-dynamic")))
    assert "tf_lso.checkpoints.restore(path" in str(error.value)
    assert "LossScaleOptimizer" not in str(error.value)
