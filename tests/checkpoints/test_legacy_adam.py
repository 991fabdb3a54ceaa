"""Restore checkpoints of a legacy Adam into Keras 3, for programs with unusual models.

compat_docs/reference/files.md says which of these checkpoints are refused.
"""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.checkpoints import helpers
from tests.checkpoints.helpers import (
    assert_equal,
    assert_refused,
    make_model,
    slots_of,
    trained_model,
)
from tests.families import keras, keras2, needs_keras3, number, wrapped
from tf_lso import checkpoints

pytestmark = needs_keras3


def old_adam():
    return wrapped("legacy", "Adam", 0.01)


def new_adam():
    return tf_lso.LossScaleOptimizer(keras.optimizers.Adam(0.01))


def trained_old_model():
    """Return a trained model of Keras 2 and its legacy Adam."""
    opt = old_adam()
    return trained_model(keras2, opt), opt


def step(opt, variables):
    """Take a step in which the gradients are ones."""
    opt.apply_gradients([(tf.ones(v.shape), v) for v in variables])


def save(folder, **objects):
    return tf.train.Checkpoint(**objects).save(str(folder / "checkpoint"))


def assert_restored(path, model, opt, old_model, old):
    """Restore a checkpoint, and assert that weights and slots equal the old ones."""
    helpers.restore_completely(path, model, opt)
    assert_equal(model.get_weights(), old_model.get_weights())
    assert_equal(slots_of(opt, model), slots_of(old, old_model))


def make_model_with_shared_layer(keras_module):
    """Return a model that calls one layer twice."""
    layers = keras_module.layers
    inputs, shared = keras_module.Input((3,)), layers.Dense(3, name="a")
    outputs = layers.Dense(3, name="b")(shared(shared(inputs)))
    return keras_module.Model(inputs, outputs)


def test_a_shared_layer(tmp_path):
    old_model, old = make_model_with_shared_layer(keras2), old_adam()
    old.build(old_model.trainable_variables)
    path = save(tmp_path, m=old_model, o=old)
    model = make_model_with_shared_layer(keras)
    assert_restored(path, model, new_adam(), old_model, old)


def test_a_layer_that_is_frozen_now_is_refused(tmp_path):
    old_model, old = trained_old_model()
    path = save(tmp_path, m=old_model, o=old)
    model = make_model(keras)
    model.layers[0].trainable = False
    assert_refused(path, model, new_adam())


def test_a_layer_that_was_frozen_gets_new_slots(tmp_path):
    old_model, old = make_model(keras2), old_adam()
    old_model.layers[0].trainable = False
    step(old, old_model.trainable_variables)
    path = save(tmp_path, m=old_model, o=old)
    model, opt = make_model(keras), new_adam()
    opt.build(model.trainable_variables)
    step(opt, model.trainable_variables)
    # The old optimizer makes the missing slots, so that all slots can be compared.
    old_model.layers[0].trainable = True
    old.build(old_model.trainable_variables)
    assert_restored(path, model, opt, old_model, old)
    assert number(opt.iterations) == 1
    for variable in model.layers[0].trainable_variables:
        assert not np.any(opt.get_slot(variable, "m"))
        assert not np.any(opt.get_slot(variable, "v"))


def test_one_of_two_models_of_one_optimizer_is_refused(tmp_path):
    first, second, old = make_model(keras2), make_model(keras2, "c", "d"), old_adam()
    old.build([*first.trainable_variables, *second.trainable_variables])
    path = save(tmp_path, m=first, n=second, o=old)
    assert_refused(path, make_model(keras), new_adam(), names={"model": "m"})


@pytest.mark.skipif(
    not hasattr(keras.optimizers, "MultiOptimizer"),
    reason="this Keras has no such optimizer",
)
def test_a_multi_optimizer_is_refused(tmp_path):
    old_model, old = trained_old_model()
    path = save(tmp_path, m=old_model, o=old)
    opt = keras.optimizers.MultiOptimizer({"a": keras.optimizers.Adam(0.01)})
    model = make_model(keras)
    before = model.get_weights()
    with pytest.raises(checkpoints.CheckpointError, match="does not restore"):
        checkpoints.restore(path, model=model, optimizer=opt)
    assert_equal(model.get_weights(), before)
