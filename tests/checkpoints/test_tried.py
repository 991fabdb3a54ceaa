"""Restore checkpoints of a legacy Adam into Keras 3, for programs with unusual models.

compat_docs/reference/files.md says which of these checkpoints are refused.
"""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.checkpoints import helpers
from tests.checkpoints.helpers import assert_equal, model_of, refused, slots_of, trained
from tests.families import keras, keras2, needs_keras3, number, wrapped
from tf_lso import checkpoints

pytestmark = needs_keras3


def shared(of):
    """Return a model that calls one layer twice."""
    layer, inputs = of.layers.Dense(3, name="a"), of.Input((3,))
    outputs = of.layers.Dense(3, name="b")(layer(layer(inputs)))
    return of.Model(inputs, outputs)


def old_adam():
    return wrapped("legacy", "Adam", 0.01)


def new_adam():
    return tf_lso.LossScaleOptimizer(keras.optimizers.Adam(0.01))


def step(opt, variables):
    opt.apply_gradients([(tf.ones(v.shape), v) for v in variables])


def written(folder, **objects):
    return tf.train.Checkpoint(**objects).save(str(folder / "c"))


def whole(old_model, old, path, model, names=None, opt=None):
    """Assert that the checkpoint is restored completely, and return the new optimizer."""
    opt = opt or new_adam()
    helpers.restored(path, model, opt, names=names)
    assert_equal(model.get_weights(), old_model.get_weights())
    assert_equal(slots_of(opt, model), slots_of(old, old_model))
    return opt


def trained_adam(*names):
    opt = old_adam()
    return trained(keras2, opt, *names), opt


def another_order(folder):
    old_model, old = trained_adam()
    model, opt = model_of(keras), new_adam()
    opt.build(model.trainable_variables[::-1])
    whole(old_model, old, written(folder, m=old_model, o=old), model, opt=opt)


def renamed(folder):
    old_model, old = trained_adam()
    path = written(folder, m=old_model, o=old)
    whole(old_model, old, path, model_of(keras, "x", "y"))


def shared_layer(folder):
    old_model, old = shared(keras2), old_adam()
    old.build(old_model.trainable_variables)
    whole(old_model, old, written(folder, m=old_model, o=old), shared(keras))


def two_optimizers(folder):
    pairs = [trained_adam(), trained_adam("c", "d")]
    (m, o), (m2, o2) = pairs
    path = written(folder, m=m, o=o, m2=m2, o2=o2)
    for pair, model, optimizer in zip(pairs, ("m", "m2"), ("o", "o2")):
        names = {"model": model, "optimizer": optimizer}
        whole(*pair, path, model_of(keras), names)


def frozen(folder):
    old_model, old = trained_adam()
    model = model_of(keras)
    model.layers[0].trainable = False
    refused(written(folder, m=old_model, o=old), model, new_adam())


def unfrozen(folder):
    old, old_model = old_adam(), model_of(keras2)
    old_model.layers[0].trainable = False
    step(old, old_model.trainable_variables)
    path = written(folder, m=old_model, o=old)
    model, opt = model_of(keras), new_adam()
    opt.build(model.trainable_variables)
    step(opt, model.trainable_variables)
    old_model.layers[0].trainable = True
    old.build(old_model.trainable_variables)
    whole(old_model, old, path, model, opt=opt)
    assert number(opt.iterations) == 1
    for variable in model.layers[0].trainable_variables:
        assert not any(np.any(opt.get_slot(variable, slot)) for slot in ("m", "v"))


def without_gradient(folder):
    old_model, old = model_of(keras2), old_adam()
    step(old, old_model.layers[0].weights)
    path = written(folder, m=old_model, o=old)
    old.build(old_model.trainable_variables)  # as a next step would
    whole(old_model, old, path, model_of(keras))


def one_of_two_models(folder):
    old, (m, n) = old_adam(), [model_of(keras2), model_of(keras2, "c", "d")]
    old.build([*m.trainable_variables, *n.trainable_variables])
    path = written(folder, m=m, n=n, o=old)
    refused(path, model_of(keras), new_adam(), names={"model": "m"})


def multi_optimizer(folder):
    old_model, old = trained_adam()
    path = written(folder, m=old_model, o=old)
    opt = keras.optimizers.MultiOptimizer({"a": keras.optimizers.Adam(0.01)})
    model = model_of(keras)
    before = model.get_weights()
    with pytest.raises(checkpoints.CheckpointError, match="does not restore"):
        checkpoints.restore(path, model=model, optimizer=opt)
    assert_equal(model.get_weights(), before)


PROGRAMS = [
    another_order,
    renamed,
    shared_layer,
    two_optimizers,
    frozen,
    unfrozen,
    without_gradient,
    one_of_two_models,
    multi_optimizer,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_checkpoint_of_a_legacy_adam(program, tmp_path):
    if program is multi_optimizer and not hasattr(keras.optimizers, "MultiOptimizer"):
        pytest.skip("not in this Keras")
    program(tmp_path)
