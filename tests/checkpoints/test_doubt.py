"""If a file could be restored in two ways, `restore` finds the right way or asks the user."""

import re

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.checkpoints.helpers import (
    assert_equal,
    expect_limits,
    model_of,
    refused,
    restored,
    saved,
    slots_of,
    state,
    train,
    trained,
)
from tests.families import (
    CHECKPOINTED,
    FAMILIES,
    KERASES,
    keras,
    keras2,
    needs_keras3,
)
from tests.generation import HAS_KERAS3
from tf_lso import checkpoints


def wrapped(family, name="Adam", **arguments):
    return tf_lso.LossScaleOptimizer(getattr(FAMILIES[family], name)(0.01, **arguments))


@pytest.mark.parametrize("writer", [name for name in FAMILIES if name != "keras3"])
@pytest.mark.parametrize("reader", FAMILIES)
def test_a_checkpoint_whose_names_and_places_disagree_asks(writer, reader, tmp_path):
    optimizer = wrapped(writer)
    path = saved(trained(KERASES[writer], optimizer), optimizer, "checkpoint", tmp_path)
    model = model_of(KERASES[reader], "b", "a")
    refused(path, model, wrapped(reader), "by its place .* by its name", "mapping=")
    restored(path, model, wrapped(reader), mapping={"a": "b", "b": "a"})


@needs_keras3
@pytest.mark.parametrize("format_", ["h5", "checkpoint"])
def test_a_model_without_the_first_layer_does_not_shift_the_others(
    format_, tmp_path, request
):
    expect_limits(request, "keras3", format_)
    optimizer = wrapped("keras3")
    model = trained(keras, optimizer, "a", "b", "c")
    path = saved(model, optimizer, format_, tmp_path)
    with pytest.raises(
        checkpoints.CheckpointError, match=r"by its place .* by its name"
    ):
        checkpoints.restore(path, model=model_of(keras, "b", "c"))
    new = model_of(keras, "b", "c")
    checkpoints.restore(path, model=new, mapping={"b": "b", "c": "c"})
    assert_equal(new.get_weights(), model.get_weights()[2:])


if HAS_KERAS3:

    class Averaging(keras.optimizers.SGD):
        """An optimizer with a slot of the same name as the averages of Keras's `use_ema`."""

        def build(self, variables):
            if not self.built:
                super().build(variables)
                self.average = [
                    self.add_variable_from_reference(v, "average") for v in variables
                ]

        def update_step(self, gradient, variable, learning_rate):
            super().update_step(gradient, variable, learning_rate)
            self.average[self._get_variable_index(variable)].assign_add(gradient)


@needs_keras3
@pytest.mark.parametrize("format_", ["keras", "weights.h5", "h5"])
def test_a_slot_of_the_users_class_is_not_taken_for_the_average_of_keras(
    format_, tmp_path
):
    optimizer = Averaging(0.01, momentum=0.5)
    path = saved(trained(keras, optimizer), optimizer, format_, tmp_path)
    found = Averaging(0.01, momentum=0.5)
    restored(path, model_of(keras), found)
    for name in ("momentums", "average"):
        assert_equal(*([*map(np.array, getattr(o, name))] for o in (found, optimizer)))


def named_slots(optimizer):
    """Return the slots of a Keras 3 optimizer, such as {"a_kernel_momentum": value}."""
    ends = {re.search(r"[ab]_kernel_\w+$", v.path): v for v in optimizer.variables}
    return {end[0]: np.array(v) for end, v in ends.items() if end}


@needs_keras3
@pytest.mark.parametrize("name", ["Adam", "SGD", "RMSprop"])
def test_an_h5_file_names_the_variables_of_its_slots(name, tmp_path):
    arguments = {"momentum": 0.5} if name != "Adam" else {}
    made = getattr(keras.optimizers, name)
    optimizer, model = made(0.01, **arguments), model_of(keras, use_bias=False)
    optimizer.build(model.trainable_variables[::-1])
    train(model, optimizer)
    path = saved(model, optimizer, "h5", tmp_path)
    new, found = model_of(keras, use_bias=False), made(0.01, **arguments)
    restored(path, new, found)
    assert_equal(named_slots(found), named_slots(optimizer))


def two(family, first, second, tmp_path):
    """Save a checkpoint of two models, each with its optimizer.

    Return the dict of the saved objects, and the path.
    """
    of, parts = KERASES[family], {}
    for name, optimizer in (("one", first), ("two", second)):
        model = model_of(of, f"{name}_a", f"{name}_b")
        optimizer.build(model.trainable_variables)
        parts |= {name: model, f"{name}_optimizer": optimizer}
    train(parts["one"], first)
    return parts, tf.train.Checkpoint(**parts).save(str(tmp_path / "two"))


@pytest.mark.parametrize("family", CHECKPOINTED)
def test_of_two_optimizers_that_fit_the_user_chooses(family, tmp_path):
    parts, path = two(family, wrapped(family), wrapped(family), tmp_path)
    model, optimizer = model_of(KERASES[family], "two_a", "two_b"), wrapped(family)
    refused(path, model, optimizer, "several models or optimizers", "names=")
    names = {"model": "one", "optimizer": "one_optimizer"}
    report = checkpoints.restore(
        path,
        model=model,
        optimizer=optimizer,
        names=names,
        mapping={"one_a": "two_a", "one_b": "two_b"},
    )
    assert report.complete
    assert_equal(state(model, optimizer), state(parts["one"], parts["one_optimizer"]))


def test_an_optimizer_without_a_step_does_not_stand_for_one_that_does_not_fit(tmp_path):
    family = "legacy"
    trained_one = wrapped(family, amsgrad=True)
    _, path = two(family, trained_one, wrapped(family), tmp_path)
    model = model_of(KERASES[family], "one_a", "one_b")
    refused(path, model, wrapped(family), "several models or optimizers|amsgrad")
    found = wrapped(family, amsgrad=True)
    report = checkpoints.restore(
        path,
        model=model,
        optimizer=found,
        names={"model": "one", "optimizer": "one_optimizer"},
    )
    assert report.complete and slots_of(found, model)


def test_keys_of_a_dict_that_look_like_names_of_classes(tmp_path):
    """A checkpoint has layers in a dict by their keys, a .keras file by their classes."""

    class Heads(keras2.Model):
        def __init__(self):
            super().__init__()
            self.heads = {
                "dense_1": keras2.layers.Dense(2),
                "dense": keras2.layers.Dense(2),
            }

        def call(self, x):
            return self.heads["dense"](x) + self.heads["dense_1"](x)

    old, new = Heads(), Heads()
    for model in (old, new):
        model(np.ones((1, 2), "float32"))
    path = tf.train.Checkpoint(model=old).save(str(tmp_path / "checkpoint"))
    assert checkpoints.restore(path, model=new).complete
    for key, layer in old.heads.items():
        assert_equal(new.heads[key].get_weights(), layer.get_weights())
