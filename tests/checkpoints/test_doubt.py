"""If a file could be restored in two ways, `restore` finds the right way or asks the user."""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.checkpoints.helpers import (
    assert_equal,
    assert_refused,
    expect_limits,
    make_model,
    restore_completely,
    save,
    slots_of,
    state_of,
    train,
    trained_model,
)
from tests.families import CHECKPOINTED, FAMILIES, KERASES, keras, keras2, needs_keras3
from tests.generation import HAS_KERAS3
from tf_lso import checkpoints


def wrapped(family, name="Adam", **arguments):
    return tf_lso.LossScaleOptimizer(getattr(FAMILIES[family], name)(0.01, **arguments))


@pytest.mark.parametrize("reader", FAMILIES)
def test_a_checkpoint_whose_names_and_places_contradict_is_refused_until_mapped(
    reader, tmp_path
):
    old = wrapped("legacy")
    old_model = trained_model(keras2, old)
    path = save(old_model, old, "checkpoint", tmp_path)
    model, opt = make_model(KERASES[reader], "b", "a"), wrapped(reader)
    assert_refused(path, model, opt, "by its position .* by its name", "mapping=")
    restore_completely(path, model, opt, mapping={"a": "a", "b": "b"})
    # The kernel and the bias of "a" are now the last two of the four variables.
    weights = old_model.get_weights()
    assert_equal(model.get_weights(), weights[2:] + weights[:2])
    slots = {
        (slot, (number + 2) % 4, shape): value
        for (slot, number, shape), value in slots_of(old, old_model).items()
    }
    assert_equal(slots_of(opt, model), slots)


@needs_keras3
@pytest.mark.parametrize("format_", ["h5", "checkpoint"])
def test_a_model_without_the_first_layer_does_not_shift_the_others(
    format_, tmp_path, request
):
    expect_limits(request, "keras3", format_)
    optimizer = wrapped("keras3")
    model = trained_model(keras, optimizer, "a", "b", "c")
    path = save(model, optimizer, format_, tmp_path)
    with pytest.raises(
        checkpoints.CheckpointError, match=r"by its position .* by its name"
    ):
        checkpoints.restore(path, model=make_model(keras, "b", "c"))
    new = make_model(keras, "b", "c")
    checkpoints.restore(path, model=new, mapping={"b": "b", "c": "c"})
    assert_equal(new.get_weights(), model.get_weights()[2:])
    longer = make_model(keras, "new", "a", "b", "c")
    with pytest.raises(
        checkpoints.CheckpointError, match=r"by its position .* by its name"
    ):
        checkpoints.restore(path, model=longer, partial=True)


def test_a_layer_whose_name_two_layers_of_the_model_have_is_not_guessed(tmp_path):
    path = tf.train.Checkpoint(model=make_model(keras2, "first", "a")).save(
        str(tmp_path / "checkpoint")
    )
    model = keras2.Sequential([make_model(keras2, "a"), make_model(keras2, "a")])
    model.build((None, 3))
    report = checkpoints.restore(path, model=model, partial=True)
    assert report.restored == []


class TwoKernels(keras2.layers.Layer):
    """A layer whose two variables have one name, but different attributes."""

    def build(self, shape):
        self.first = self.add_weight(name="kernel", shape=(2,))
        self.kernel = self.add_weight(name="kernel", shape=(2,))


def test_two_variables_of_one_name_are_told_apart_by_their_attributes(tmp_path):
    saved, model = (keras2.Sequential([TwoKernels()]) for _ in range(2))
    for each in (saved, model):
        each.build((None, 2))
    path = tf.train.Checkpoint(model=saved).save(str(tmp_path / "checkpoint"))
    checkpoints.restore(path, model=model)
    assert_equal(model.get_weights(), saved.get_weights())


def test_layers_of_other_shapes_are_found_by_name_in_another_order(tmp_path):
    def heads(*units):
        inputs = keras.Input((3,))
        layers = [keras.layers.Dense(unit, name=f"head_{unit}") for unit in units]
        return keras.Model(inputs, [layer(inputs) for layer in layers])

    old, new = heads(2, 4), heads(4, 2)
    path = tf.train.Checkpoint(model=old).save(str(tmp_path / "saved"))
    assert checkpoints.restore(path, model=new).complete
    weights = old.get_weights()
    assert_equal(new.get_weights(), weights[2:] + weights[:2])


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "legacy"])
@pytest.mark.parametrize(
    ("frozen_there", "frozen_here"), [("a", "b"), ("b", "a"), ("inner", "inner")]
)
def test_slots_of_other_layers_in_a_plain_keras_file_are_refused(
    family, frozen_there, frozen_here, tmp_path
):
    layers = KERASES[family].layers

    def model_without(frozen):
        inner = make_model(KERASES[family], "a", "b")
        (inner if frozen == "inner" else inner.get_layer(frozen)).trainable = False
        parts = [layers.InputLayer((3,)), inner, layers.Dense(3, name="c")]
        return KERASES[family].Sequential(parts)

    optimizer, writer = FAMILIES[family].Adam(0.01), model_without(frozen_there)
    optimizer.build(writer.trainable_variables)
    train(writer, optimizer)
    path = save(writer, optimizer, "keras", tmp_path)
    same, new = model_without(frozen_there), FAMILIES[family].Adam(0.01)
    restore_completely(path, same, new)
    assert_equal(state_of(same, new), state_of(writer, optimizer))
    if frozen_here != frozen_there:
        other, new = model_without(frozen_here), FAMILIES[family].Adam(0.01)
        assert_refused(path, other, new, "Freeze the same layers")
        checkpoints.restore(path, model=other)
        assert_equal(other.get_weights(), writer.get_weights())


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "legacy"])
def test_a_layer_may_be_frozen_after_the_build(family, tmp_path):
    """The slots belong to the layers for which the optimizer was built, as in the file."""
    old = FAMILIES[family].Adam(0.01)
    old_model = trained_model(KERASES[family], old)
    path = save(old_model, old, "keras", tmp_path)
    model, opt = make_model(KERASES[family]), FAMILIES[family].Adam(0.01)
    opt.build(model.trainable_variables)
    model.get_layer("a").trainable = False
    restore_completely(path, model, opt)
    assert_equal(state_of(model, opt), state_of(old_model, old))


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
@pytest.mark.parametrize("format_", ["keras", "h5"])
def test_a_slot_of_the_users_class_is_not_confused_with_the_average_of_keras(
    format_, tmp_path
):
    optimizer = Averaging(0.01, momentum=0.5)
    path = save(trained_model(keras, optimizer), optimizer, format_, tmp_path)
    found = Averaging(0.01, momentum=0.5)
    restore_completely(path, make_model(keras), found)
    for name in ("momentums", "average"):
        slots = [np.array(slot) for slot in getattr(found, name)]
        expected = [np.array(slot) for slot in getattr(optimizer, name)]
        assert_equal(slots, expected)


@needs_keras3
@pytest.mark.parametrize("name", ["Adam", "RMSprop"])
def test_slots_of_an_h5_file_follow_the_names_of_their_variables(name, tmp_path):
    arguments = {"momentum": 0.5} if name != "Adam" else {}
    make_optimizer = getattr(keras.optimizers, name)
    optimizer = make_optimizer(0.01, **arguments)
    model = make_model(keras, use_bias=False)
    optimizer.build(model.trainable_variables[::-1])
    train(model, optimizer)
    path = save(model, optimizer, "h5", tmp_path)
    new, found = make_model(keras, use_bias=False), make_optimizer(0.01, **arguments)
    restore_completely(path, new, found)
    found, optimizer = map(tf_lso.LossScaleOptimizer, (found, optimizer))
    assert_equal(slots_of(found, new), slots_of(optimizer, model))


def test_slots_of_inner_models_with_equal_names_follow_the_order_of_the_variables(
    tmp_path,
):
    """The names of slots in Keras 2 lack the names of the inner models.

    The file has more than ten variables, so their order as text would be another one.
    """

    def network():
        parts = [make_model(keras2, "a", "b", "c") for _ in range(2)]
        return keras2.Sequential([keras2.layers.InputLayer((3,)), *parts])

    old_model, old = network(), FAMILIES["new"].Adam(0.01)
    train(old_model, old, steps=1)
    path = save(old_model, old, "checkpoint", tmp_path)
    model, opt = network(), FAMILIES["new"].Adam(0.01)
    restore_completely(path, model, opt)
    assert_equal(state_of(model, opt), state_of(old_model, old))


def save_two_models(family, first, second, tmp_path):
    """Save a checkpoint of two models, each with its optimizer.

    Return the dict of the saved objects, and the path.
    """
    objects = {}
    for name, optimizer in (("one", first), ("two", second)):
        model = make_model(KERASES[family], f"{name}_a", f"{name}_b")
        optimizer.build(model.trainable_variables)
        objects[name] = model
        objects[f"{name}_optimizer"] = optimizer
    train(objects["one"], first)
    return objects, tf.train.Checkpoint(**objects).save(str(tmp_path / "two"))


@pytest.mark.parametrize("family", CHECKPOINTED)
def test_if_two_optimizers_fit_the_user_must_choose_one(family, tmp_path):
    objects, path = save_two_models(family, wrapped(family), wrapped(family), tmp_path)
    model, optimizer = make_model(KERASES[family], "one_a", "one_b"), wrapped(family)
    assert_refused(path, model, optimizer, "several models or optimizers", "names=")
    names = {"model": "one", "optimizer": "one_optimizer"}
    restore_completely(path, model, optimizer, names=names)
    assert_equal(
        state_of(model, optimizer), state_of(objects["one"], objects["one_optimizer"])
    )


def test_a_partial_restore_does_not_choose_between_models_that_fit_alike(tmp_path):
    objects, path = save_two_models("new", wrapped("new"), wrapped("new"), tmp_path)
    model = make_model(KERASES["new"], "two_a", "two_b", "more")
    expected = "several models", "names="
    assert_refused(path, model, wrapped("new"), *expected, partial=True)
    checkpoints.restore(path, model=model, names={"model": "two"}, partial=True)
    assert_equal(model.get_weights()[:2], objects["two"].get_weights()[:2])


def test_an_untrained_optimizer_that_fits_does_not_replace_a_trained_one(tmp_path):
    family = "legacy"
    _, path = save_two_models(
        family, wrapped(family, amsgrad=True), wrapped(family), tmp_path
    )
    model = make_model(KERASES[family], "one_a", "one_b")
    assert_refused(path, model, wrapped(family), "several models or optimizers|amsgrad")
    found = wrapped(family, amsgrad=True)
    report = checkpoints.restore(
        path,
        model=model,
        optimizer=found,
        names={"model": "one", "optimizer": "one_optimizer"},
    )
    assert report.complete and slots_of(found, model)


def test_an_incomplete_restore_prefers_the_optimizer_that_uses_more_of_the_file(
    tmp_path,
):
    """Both optimizers lack the slots of the new layer, but only one has a loss scale."""
    family, objects = "legacy", {}
    bare, scaled = FAMILIES[family].Adam(0.01), wrapped(family)
    for name, optimizer in (("one", bare), ("two", scaled)):
        objects[name] = trained_model(KERASES[family], optimizer, f"{name}_a")
        objects[f"{name}_optimizer"] = optimizer
    scaled.loss_scale = 4.0
    path = tf.train.Checkpoint(**objects).save(str(tmp_path / "two"))
    model, found = make_model(KERASES[family], "two_a", "new"), wrapped(family)
    checkpoints.restore(path, model=model, optimizer=found, partial=True)
    assert float(found.loss_scale) == 4.0
    assert_equal(model.get_weights()[:2], objects["two"].get_weights())


def test_names_that_all_fit_are_preferred_to_places_of_which_only_some_fit(tmp_path):
    """The second layer of the file is now in the place of the first."""

    def make(**names):
        model = keras2.Sequential([keras2.layers.InputLayer((3,))])
        for attribute, name in names.items():
            layer = keras2.layers.Dense(3, name=name)
            model.add(layer)
            setattr(model, attribute, layer)
        return tf.train.Checkpoint(**{a: getattr(model, a) for a in names}), model

    checkpoint, old = make(one="x", two="y")
    _, new = make(one="y", three="x")
    restored = checkpoints.restore(checkpoint.save(tmp_path / "c"), model=new)
    assert restored.complete
    for name in ("x", "y"):
        assert_equal(
            new.get_layer(name).get_weights(), old.get_layer(name).get_weights()
        )


@pytest.mark.parametrize("is_root", [True, False])
def test_layers_of_a_users_model_are_found_by_attributes_and_keys(is_root, tmp_path):
    """The keys look like names of classes, as .keras files have them.

    If the model is the root, each of its layers could be a model of its own.
    """

    class Own(keras2.Model):
        def __init__(self):
            super().__init__()
            dense = keras2.layers.Dense
            self.first = dense(2)
            self.middle = (dense(2),)
            self.heads = {"dense_1": dense(2), "dense": dense(2)}

        def call(self, x):
            x = self.middle[0](self.first(x))
            return self.heads["dense"](x) + self.heads["dense_1"](x)

    old, new = Own(), Own()
    for model in (old, new):
        model(np.ones((1, 2), "float32"))
    path = str(tmp_path / "saved")
    if is_root:
        old.save_weights(path, save_format="tf")
    else:
        path = tf.train.Checkpoint(model=old).save(path)
    assert checkpoints.restore(path, model=new).complete
    assert_equal(new.first.get_weights(), old.first.get_weights())
    assert_equal(new.middle[0].get_weights(), old.middle[0].get_weights())
    for key, layer in old.heads.items():
        assert_equal(new.heads[key].get_weights(), layer.get_weights())
