"""The table of what was tried, on the page on files: a row for each case here."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.checkpoints.test_whole import model_of, trained
from tests.families import FAMILIES, keras, keras2, needs_keras3
from tf_lso import checkpoints

pytestmark = needs_keras3
PAGE = pathlib.Path(__file__).parents[2] / "compat_docs" / "reference" / "files.md"


def shared(of):
    """Two calls of one layer."""
    layer, inputs = of.layers.Dense(3, name="a"), of.Input((3,))
    outputs = of.layers.Dense(3, name="b")(layer(layer(inputs)))
    return of.Model(inputs, outputs)


def old_adam():
    return tf_lso.LossScaleOptimizer(FAMILIES["legacy"].Adam(0.01), initial_scale=8)


def new_adam():
    return tf_lso.LossScaleOptimizer(keras.optimizers.Adam(0.01))


def written(folder):
    opt = old_adam()
    model = trained(keras2, opt)
    return model, opt, tf.train.Checkpoint(m=model, o=opt).save(str(folder / "c"))


def whole(old_model, old, model, opt, report):
    assert report.complete
    assert all(map(np.array_equal, old_model.get_weights(), model.get_weights()))
    for one, other in zip(old_model.trainable_variables, model.trainable_variables):
        for slot in ("m", "v"):
            assert np.array_equal(old.get_slot(one, slot), opt.get_slot(other, slot))


def another_order(folder):
    old_model, old, path = written(folder)
    model, opt = model_of(keras, "a", "b"), new_adam()
    opt.build(model.trainable_variables[::-1])
    report = checkpoints.restore(path, model=model, optimizer=opt)
    whole(old_model, old, model, opt, report)


def renamed(folder):
    old_model, old, path = written(folder)
    model, opt = model_of(keras, "x", "y"), new_adam()
    report = checkpoints.restore(path, model=model, optimizer=opt)
    whole(old_model, old, model, opt, report)


def shared_layer(folder):
    old_model, old = shared(keras2), old_adam()
    old.build(old_model.trainable_variables)
    path = tf.train.Checkpoint(m=old_model, o=old).save(str(folder / "c"))
    model, opt = shared(keras), new_adam()
    report = checkpoints.restore(path, model=model, optimizer=opt)
    whole(old_model, old, model, opt, report)


def two_optimizers(folder):
    old_model, old, _ = written(folder)
    other = old_adam()
    other_model = trained(keras2, other, "c", "d")
    saved = tf.train.Checkpoint(m=old_model, o=old, m2=other_model, o2=other)
    path = saved.save(str(folder / "c"))
    for names, pair in (
        (("m", "o"), (old_model, old)),
        (("m2", "o2"), (other_model, other)),
    ):
        model, opt = model_of(keras, "a", "b"), new_adam()
        names = dict(zip(("model", "optimizer"), names))
        report = checkpoints.restore(path, model=model, optimizer=opt, names=names)
        whole(*pair, model, opt, report)


def refused(path, model, opt, **kwargs):
    before = model.get_weights()
    with pytest.raises(checkpoints.CheckpointError):
        checkpoints.restore(path, model=model, optimizer=opt, **kwargs)
    assert all(map(np.array_equal, before, model.get_weights()))


def frozen(folder):
    _, _, path = written(folder)
    model = model_of(keras, "a", "b")
    model.layers[0].trainable = False
    refused(path, model, new_adam())


def unfrozen(folder):
    old, old_model = old_adam(), model_of(keras2, "a", "b")
    old_model.layers[0].trainable = False
    ones = [tf.ones(v.shape) for v in old_model.trainable_variables]
    old.apply_gradients(zip(ones, old_model.trainable_variables))
    path = tf.train.Checkpoint(m=old_model, o=old).save(str(folder / "c"))
    model, opt = model_of(keras, "a", "b"), new_adam()
    opt.build(model.trainable_variables)
    ones = [tf.ones(v.shape) for v in model.trainable_variables]
    opt.apply_gradients(zip(ones, model.trainable_variables))
    assert checkpoints.restore(path, model=model, optimizer=opt).complete
    assert all(map(np.array_equal, old_model.get_weights(), model.get_weights()))
    assert int(opt.iterations) == 1
    for slot in ("m", "v"):
        for variable in model.layers[0].trainable_variables:
            assert not np.any(opt.get_slot(variable, slot))
        for one, other in zip(old_model.trainable_variables, model.layers[1].weights):
            assert np.array_equal(old.get_slot(one, slot), opt.get_slot(other, slot))


def without_gradient(folder):
    old_model, old = model_of(keras2, "a", "b"), old_adam()
    ones = [tf.ones(v.shape) for v in old_model.layers[0].weights]
    old.apply_gradients(zip(ones, old_model.layers[0].weights))
    path = tf.train.Checkpoint(m=old_model, o=old).save(str(folder / "c"))
    model, opt = model_of(keras, "a", "b"), new_adam()
    report = checkpoints.restore(path, model=model, optimizer=opt)
    old.build(old_model.trainable_variables)  # as a next step would
    whole(old_model, old, model, opt, report)


def one_of_two_models(folder):
    old, models = old_adam(), [model_of(keras2, "a", "b"), model_of(keras2, "c", "d")]
    old.build([v for model in models for v in model.trainable_variables])
    path = tf.train.Checkpoint(m=models[0], n=models[1], o=old).save(str(folder / "c"))
    refused(path, model_of(keras, "a", "b"), new_adam(), names={"model": "m"})


def multi_optimizer(folder):
    _, _, path = written(folder)
    opt = keras.optimizers.MultiOptimizer({"a": keras.optimizers.Adam(0.01)})
    refused(path, model_of(keras, "a", "b"), opt)


ROWS = {
    "an optimizer that was built in another order": (another_order, "whole"),
    "a renamed layer": (renamed, "whole"),
    "a layer that is called twice": (shared_layer, "whole"),
    "two models and two optimizers in one checkpoint": (two_optimizers, "whole"),
    "a layer that is frozen now": (frozen, "refused"),
    "a layer that was frozen then": (unfrozen, "whole"),
    "a weight that had no gradient (BERT's pooler, an unused head)": (
        without_gradient,
        "whole",
    ),
    "one of two models that one optimizer trained": (one_of_two_models, "refused"),
    "a `MultiOptimizer`": (multi_optimizer, "refused"),
}


@pytest.mark.parametrize("row", ROWS)
def test_a_row(row, tmp_path):
    if row == "a `MultiOptimizer`" and not hasattr(keras.optimizers, "MultiOptimizer"):
        pytest.skip("not in this Keras")
    try_it, _ = ROWS[row]
    try_it(tmp_path)


def test_the_page_has_each_row():
    text = PAGE.read_text()
    for row, (_, ends) in ROWS.items():
        assert f"| {row} | {ends}" in text
