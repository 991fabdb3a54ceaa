"""A file says whose state it holds, also of nested layers and of optimizers of users.

As in `test_whose_state`, the variables have equal shapes, so only their names, or the graph of
a checkpoint, tell them apart.
"""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, KERASES, OLD_KERAS3, here, numpy
from tests.refused import refused
from tests.state import transfer
from tests.state.programs import assert_equal

pytestmark = [
    pytest.mark.usefixtures("installed"),
    pytest.mark.skipif(
        OLD_KERAS3, reason="Keras 3.0 saves no optimizer in checkpoints"
    ),
]
OTHER_VARIABLES = "ValueError: The file has slots of other model variables"
LISTED = here("keras3", "new")  # the families that keep their slots in lists


def train(optimizer, variables):
    """Build an optimizer, and take a step with another gradient for each variable."""
    optimizer.build(variables)
    pairs = [(tf.fill(v.shape, 1.0 + n), v) for n, v in enumerate(variables)]
    optimizer.apply_gradients(pairs)


def slots(optimizer, variables):
    """Return {slot name: the value for each of `variables`}."""
    return {
        name: [np.array(numpy(optimizer.get_slot(v, name))) for v in variables]
        for name in optimizer.get_slot_names()
    }


def blocks(family, names, frozen=()):
    """Return a model of blocks, each with an inner layer "proj", and their kernels."""
    keras = KERASES[family]

    class Block(keras.layers.Layer):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.proj = keras.layers.Dense(3, use_bias=False, name="proj")

        def call(self, x):
            return self.proj(x)

    x = first = keras.Input((3,))
    parts = [Block(name=name) for name in names]
    for part in parts:
        part.trainable = part.name not in frozen
        x = part(x)
    return keras.Model(first, x), [part.proj.kernel for part in parts]


def backbones(family):
    """Return a model of two functional models, whose layers have the same name."""
    keras = KERASES[family]
    x = first = keras.Input((3,))
    kernels = []
    for name in ("enc", "dec"):
        start = keras.Input((3,))
        layer = keras.layers.Dense(3, use_bias=False, name="proj")
        part = keras.Model(start, layer(start), name=name)
        kernels.append(layer.kernel)
        x = part(x)
    return keras.Model(first, x), kernels


def wrapped_adam(family):
    return tf_lso.LossScaleOptimizer(FAMILIES[family].Adam(0.1), initial_scale=8)


FORMATS = {
    "checkpoint": transfer.checkpoint,
    ".weights.h5": transfer.weights_file,
    "restore of .keras": transfer.restored("m.keras"),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_layer_of_the_same_name_in_another_block_is_another_layer(
    family, name, tmp_path, caplog
):
    if family == "legacy" and name == "checkpoint":
        pytest.skip("TensorFlow leaves out what only one of them trains")
    (model, kernels), optimizer = blocks(family, "xy", "x"), wrapped_adam(family)
    train(optimizer, kernels[1:])
    (other, others), reader = blocks(family, "xy", "y"), wrapped_adam(family)
    reader.build(others[:1])
    before = slots(reader, others[:1])
    writes, reads = (model, optimizer), (other, reader)
    if name == ".weights.h5":
        FORMATS[name](writes, reads, tmp_path)
        assert "only the file has ['y/proj/kernel']" in caplog.text
    else:
        with pytest.raises(ValueError, match=r"y/proj/kernel|does not fit"):
            FORMATS[name](writes, reads, tmp_path)
    assert_equal(before, slots(reader, others[:1]))
    assert int(numpy(reader.iterations)) == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_a_name_that_differs_by_a_number_is_told(family, tmp_path, caplog):
    """The model may have been made a second time, or another block may have been frozen."""
    names = ["block_1", "block_2"]
    (model, kernels), optimizer = blocks(family, names, names[:1]), wrapped_adam(family)
    train(optimizer, kernels[1:])
    (other, others), reader = blocks(family, names, names[1:]), wrapped_adam(family)
    reader.build(others[:1])
    transfer.weights_file((model, optimizer), (other, reader), tmp_path)
    assert "Only the numbers in the names differ" in caplog.text
    assert_equal(slots(optimizer, kernels[1:]), slots(reader, others[:1]))


@pytest.mark.parametrize("family", LISTED)
def test_the_graph_of_a_checkpoint_decides_and_not_a_number(family, tmp_path):
    names = ["block_1", "block_2"]
    (model, kernels), optimizer = blocks(family, names, names[:1]), wrapped_adam(family)
    train(optimizer, kernels[1:])
    (other, others), reader = blocks(family, names, names[1:]), wrapped_adam(family)
    reader.build(others[:1])
    with refused(OTHER_VARIABLES):
        transfer.checkpoint((model, optimizer), (other, reader), tmp_path)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_whose_layers_share_a_name_is_restored(family, name, tmp_path):
    (model, kernels), optimizer = backbones(family), wrapped_adam(family)
    train(optimizer, kernels)
    (other, others), reader = backbones(family), wrapped_adam(family)
    reader.build(others)
    FORMATS[name]((model, optimizer), (other, reader), tmp_path)
    assert_equal(slots(optimizer, kernels), slots(reader, others))


@pytest.mark.parametrize("built", [True, False], ids=["built", ""])
@pytest.mark.keras3
def test_the_graph_of_a_checkpoint_tells_layers_of_one_name_apart(built, tmp_path):
    """Keras 3 lists in a checkpoint for which variables the optimizer was built."""
    (model, kernels), optimizer = backbones("keras3"), wrapped_adam("keras3")
    train(optimizer, kernels[::-1])
    (other, others), reader = backbones("keras3"), wrapped_adam("keras3")
    if built:
        reader.build(others)
    transfer.checkpoint((model, optimizer), (other, reader), tmp_path)
    reader.build(others)
    assert_equal(slots(optimizer, kernels), slots(reader, others))


# --- Slots that only the optimizer of a user has.


def own_optimizer(family, keep):
    """Return an SGD with a slot for each kernel. `keep` puts the slots into an attribute."""

    class Own(FAMILIES[family].SGD):
        def build(self, variables):
            super().build(variables)
            if not hasattr(self, "kept"):
                kernels = [v for v in variables if len(v.shape) == 2]
                made = [self.add_variable_from_reference(v, "own") for v in kernels]
                self.kept = keep(made)
                object.__setattr__(self, "made", dict(zip(map(id, kernels), made)))

    return tf_lso.LossScaleOptimizer(Own(0.1), initial_scale=8)


# What a user's optimizer may keep its slots in, such that nothing says whose slots they are.
KEPT = {
    "only for kernels": list,
    "by number": lambda made: dict(enumerate(made)),
    "in a list of lists": lambda made: [made],
}


def dense_layers(family, frozen=()):
    """Return a model of two layers, and its trainable variables."""
    keras = KERASES[family]
    layers = [keras.layers.Dense(3, name=name) for name in "ab"]
    for layer in layers:
        layer.trainable = layer.name not in frozen
    model = keras.Sequential([keras.layers.InputLayer((3,)), *layers])
    return model, model.trainable_variables


def kept(optimizer, variables):
    made = optimizer.inner_optimizer.made
    return {"own": [np.array(numpy(made[id(v)])) for v in variables if id(v) in made]}


# Rows of (the layer that the reader freezes instead of "a", the order of its build, the
# warning).
READERS = [("", 1, None), ("", -1, "Build it in this order"), ("b", 1, "does not fit")]


@pytest.mark.parametrize(("frozen", "order", "warning"), READERS)
@pytest.mark.parametrize("keep", KEPT)
@pytest.mark.parametrize("family", LISTED)
def test_slots_of_unknown_variables_are_restored_only_in_their_order(
    family, keep, frozen, order, warning, tmp_path, caplog
):
    model, variables = dense_layers(family, "a" if frozen else "")
    optimizer = own_optimizer(family, KEPT[keep])
    optimizer.build(variables)
    for n, slot in enumerate(optimizer.inner_optimizer.made.values(), 1):
        slot.assign(tf.fill(slot.shape, float(n)))
    other, others = dense_layers(family, frozen)
    reader = own_optimizer(family, KEPT[keep])
    reader.build(others[::order])
    before = kept(reader, others)
    transfer.weights_file((model, optimizer), (other, reader), tmp_path)
    expected = before if warning else kept(optimizer, variables)
    assert_equal(expected, kept(reader, others))
    assert (warning or "") in caplog.text


@pytest.mark.parametrize("name", ["checkpoint", ".weights.h5"])
@pytest.mark.parametrize("family", FAMILIES)
def test_slots_of_add_slot_go_to_their_variables(family, name, tmp_path):
    def make(order):
        model, variables = dense_layers(family)
        kernels, optimizer = variables[::2], wrapped_adam(family)
        optimizer.build(variables)
        for variable in kernels[::order]:
            optimizer.add_slot(variable, "mine")
        return (model, optimizer), kernels

    writes, kernels = make(-1)
    for n, variable in enumerate(kernels, 1):
        slot = writes[1].get_slot(variable, "mine")
        slot.assign(tf.fill(slot.shape, float(n)))
    reads, others = make(1)
    FORMATS[name](writes, reads, tmp_path)
    for variable, other in zip(kernels, others, strict=True):
        expected, actual = (
            numpy(optimizer.get_slot(v, "mine"))
            for optimizer, v in ((writes[1], variable), (reads[1], other))
        )
        np.testing.assert_array_equal(expected, actual)


# --- Several restores before the build.


def trained(family, name="Adam", frozen=()):
    """Return a model of two layers, its trainable variables and its trained optimizer."""
    model, variables = dense_layers(family, frozen)
    optimizer = tf_lso.LossScaleOptimizer(getattr(FAMILIES[family], name)(0.1))
    train(optimizer, variables)
    return model, variables, optimizer


def saved(optimizer, folder):
    """Save a checkpoint of an optimizer, and return its path."""
    return tf.train.Checkpoint(optimizer=optimizer).save(folder / "c")


@pytest.mark.parametrize("name", ["Adam", "Nadam"])
@pytest.mark.parametrize("family", LISTED)
def test_a_checkpoint_from_before_the_first_step_replaces_one_that_was_restored(
    family, name, tmp_path
):
    def make():
        model, _ = dense_layers(family)
        optimizer = tf_lso.LossScaleOptimizer(getattr(FAMILIES[family], name)(0.1))
        return model, optimizer, tf.train.Checkpoint(model=model, optimizer=optimizer)

    model, optimizer, checkpoint = make()
    first = checkpoint.save(tmp_path / "first")
    train(optimizer, model.trainable_variables)
    trained = checkpoint.save(tmp_path / "trained")
    new_model, new_optimizer, _ = make()
    new_optimizer.build(new_model.trainable_variables)
    other, reader, checkpoint = make()
    checkpoint.restore(trained)
    checkpoint.restore(first)
    reader.build(other.trainable_variables)
    assert int(numpy(reader.iterations)) == 0
    for expected, actual in zip(new_optimizer.variables, reader.variables, strict=True):
        np.testing.assert_array_equal(numpy(expected), numpy(actual))


@pytest.mark.parametrize("family", LISTED)
def test_a_refused_checkpoint_does_not_discard_what_was_loaded(family, tmp_path):
    model, variables, optimizer = trained(family)
    (other, others), reader = dense_layers(family), wrapped_adam(family)
    transfer.weights_file((model, optimizer), (other, reader), tmp_path)
    path = saved(trained(family, "RMSprop")[-1], tmp_path)
    with refused("ValueError: an optimizer of the class RMSprop"):
        tf.train.Checkpoint(optimizer=reader).restore(path)
    reader.build(others)
    assert_equal(slots(optimizer, variables[::2]), slots(reader, others[::2]))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_file_from_before_the_build_is_not_loaded_into_another_class(
    family, tmp_path, caplog
):
    model, _ = dense_layers(family)
    optimizer = tf_lso.LossScaleOptimizer(FAMILIES[family].SGD(0.5))
    (other, _), reader = dense_layers(family), wrapped_adam(family)
    path = saved(optimizer, tmp_path)
    with refused("ValueError: an optimizer of the class SGD"):
        tf.train.Checkpoint(optimizer=reader).restore(path)
    transfer.weights_file((model, optimizer), (other, reader), tmp_path)
    assert "an optimizer of the class SGD" in caplog.text
    assert float(numpy(reader.inner_optimizer.learning_rate)) == pytest.approx(0.1)


@pytest.mark.parametrize("family", LISTED)
def test_a_refused_checkpoint_does_not_replace_one_that_waits(family, tmp_path):
    good, bad = (
        saved(trained(family, name, frozen="b")[-1], tmp_path / name)
        for name in ("Adam", "RMSprop")
    )
    _, others = dense_layers(family, "a")
    reader = wrapped_adam(family)
    checkpoint = tf.train.Checkpoint(optimizer=reader)
    checkpoint.restore(good)
    with refused("ValueError: class RMSprop"):
        checkpoint.restore(bad)
    with refused(OTHER_VARIABLES):
        reader.build(others)


@pytest.mark.parametrize("is_wrapped", [True, False])
@pytest.mark.parametrize("family", LISTED)
def test_each_build_refuses_a_checkpoint_of_other_variables(
    family, is_wrapped, tmp_path
):
    """In a notebook, a program may run the cell that failed a second time."""
    if is_wrapped:
        saver, error = trained(family, frozen="b")[-1], OTHER_VARIABLES
    else:
        saver = trained(family)[-1].inner_optimizer
        error = "ValueError: The checkpoint has more variables of the optimizer"
    reader = wrapped_adam(family)
    tf.train.Checkpoint(optimizer=reader).restore(saved(saver, tmp_path))
    _, others = dense_layers(family, "a")
    for _ in range(2):
        with refused(error):
            reader.build(others)


def test_an_optimizer_is_not_built_if_the_build_refuses_a_checkpoint(tmp_path):
    path = saved(trained("new", frozen="b")[-1], tmp_path)
    _, others = dense_layers("new", "a")
    reader = wrapped_adam("new")
    tf.train.Checkpoint(optimizer=reader).restore(path)
    with refused(OTHER_VARIABLES):
        reader.build(others)
    with refused("ValueError: must be given until the optimizer is built"):
        reader.apply([tf.zeros(variable.shape) for variable in others])


@pytest.mark.parametrize("family", LISTED)
def test_a_checkpoint_with_fewer_variables_replaces_one_that_waits(family, tmp_path):
    _, others = dense_layers(family, "b")
    reader = wrapped_adam(family)
    for frozen in ("", "b"):
        _, variables, optimizer = trained(family, frozen=frozen)
        path = saved(optimizer, tmp_path)
        tf.train.Checkpoint(optimizer=reader).restore(path)
    reader.build(others)
    assert_equal(slots(optimizer, variables[:1]), slots(reader, others[:1]))


@pytest.mark.parametrize("family", LISTED)
def test_a_file_that_does_not_fit_at_the_build_leaves_nothing_of_an_earlier_file(
    family, tmp_path, caplog
):
    other, others = dense_layers(family)
    reader = wrapped_adam(family)
    other.compile(reader, "mse")
    for frozen in ("", "b"):
        model, _, optimizer = trained(family, frozen=frozen)
        model.compile(optimizer, "mse")
        model.save_weights(tmp_path / f"{frozen}.weights.h5")
        other.load_weights(tmp_path / f"{frozen}.weights.h5")
    reader.build(others)
    assert "does not fit" in caplog.text
    assert int(numpy(reader.iterations)) == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_an_optimizer_beside_a_refused_one_does_not_start_again(family, tmp_path):
    first, second = wrapped_adam(family), wrapped_adam(family)
    other = tf_lso.LossScaleOptimizer(FAMILIES[family].RMSprop(0.1))
    path = tf.train.Checkpoint(a=first, b=other).save(tmp_path / "c")
    _, variables = dense_layers(family)
    for optimizer in (first, second):
        train(optimizer, variables)
    before = slots(first, variables[:1])
    with refused("ValueError: class RMSprop"):
        tf.train.Checkpoint(a=first, b=second).restore(path)
    assert_equal(before, slots(first, variables[:1]))
    assert int(numpy(first.iterations)) == 1


# --- Names that tell less than they seem to.


def two_layers(family, names=(None, None), is_crossed=False):
    """Return a model of two layers that get their default names, and their kernels."""
    keras = KERASES[family]
    keras.backend.clear_session()
    made = [keras.layers.Dense(3, use_bias=False, name=name) for name in names]
    x = keras.Input((3,))
    first, second = made[::-1] if is_crossed else made
    return keras.Model(x, second(first(x))), [first.kernel, second.kernel]


@pytest.mark.parametrize("family", FAMILIES)
def test_numbers_that_could_mean_another_layer_are_told(family, tmp_path, caplog):
    """The lines that make the layers were exchanged, so `dense` and `dense_1` are too."""
    (model, kernels), optimizer = two_layers(family), wrapped_adam(family)
    train(optimizer, kernels)
    (other, others), reader = two_layers(family, is_crossed=True), wrapped_adam(family)
    reader.build(others)
    transfer.weights_file((model, optimizer), (other, reader), tmp_path)
    assert "the layers were created in another order" in caplog.text


@pytest.mark.keras3
def test_models_in_a_model_are_told_apart_by_their_default_names(tmp_path):
    """Their layers have the same name, and the optimizer was built in another order."""

    def make():
        keras = KERASES["keras3"]
        keras.backend.clear_session()
        x = first = keras.Input((3,))
        kernels = []
        for _ in range(2):
            layer = keras.layers.Dense(3, use_bias=False, name="proj")
            x = keras.Sequential([keras.layers.InputLayer((3,)), layer])(x)
            kernels.append(layer.kernel)
        return keras.Model(first, x), kernels

    (model, kernels), optimizer = make(), wrapped_adam("keras3")
    train(optimizer, kernels[::-1])
    (other, others), reader = make(), wrapped_adam("keras3")
    reader.build(others)
    transfer.weights_file((model, optimizer), (other, reader), tmp_path)
    assert_equal(slots(optimizer, kernels), slots(reader, others))


@pytest.mark.parametrize("suffix", [".keras", ".h5", ".weights.h5"])
@pytest.mark.parametrize("writer", ["new", "legacy"])
@pytest.mark.skipif(not {"keras3", "new"} <= {*FAMILIES}, reason="needs both Kerases")
def test_layers_in_sequential_models_are_found_in_the_other_keras(
    writer, suffix, tmp_path
):
    """Only Keras 3 has the names of the Sequential models in the paths of its variables."""

    def make(keras):
        x = first = keras.Input((3,))
        kernels = []
        for name in "ab":
            layer = keras.layers.Dense(3, use_bias=False, name=name)
            x = keras.Sequential([keras.layers.InputLayer((3,)), layer])(x)
            kernels.append(layer.kernel)
        return keras.Model(first, x), kernels

    (model, kernels), optimizer = make(KERASES[writer]), wrapped_adam(writer)
    train(optimizer, kernels[::-1])
    model.compile(optimizer, "mse")
    path = tmp_path / f"m{suffix}"
    (model.save_weights if suffix == ".weights.h5" else model.save)(path)
    (other, others), reader = make(KERASES["keras3"]), wrapped_adam("keras3")
    reader.build(others)
    tf_lso.checkpoints.restore(path, model=other, optimizer=reader)
    assert_equal(slots(optimizer, kernels), slots(reader, others))


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
@pytest.mark.skipif(not {"keras3", "new"} <= {*FAMILIES}, reason="needs both Kerases")
def test_another_block_is_another_layer_also_in_the_other_keras(suffix, tmp_path):
    model, kernels = blocks("legacy", "xy", "x")
    optimizer = wrapped_adam("legacy")
    train(optimizer, kernels[1:])
    model.compile(optimizer, "mse")
    model.save(tmp_path / f"m{suffix}")
    other, _ = blocks("keras3", "xy", "y")
    with pytest.raises(ValueError, match="does not fit"):
        tf_lso.checkpoints.restore(
            tmp_path / f"m{suffix}", model=other, optimizer=wrapped_adam("keras3")
        )


@pytest.mark.parametrize("names", [("b", "a"), ("x", "y")], ids="".join)
@pytest.mark.parametrize("family", FAMILIES)
def test_slots_follow_the_mapping_of_their_model_variables(family, names, tmp_path):
    (model, kernels), optimizer = two_layers(family, "ab"), wrapped_adam(family)
    train(optimizer, kernels)
    model.compile(optimizer, "mse")
    model.save(tmp_path / "m.h5")
    (other, others), reader = two_layers(family, names), wrapped_adam(family)
    reader.build(others)
    tf_lso.checkpoints.restore(
        tmp_path / "m.h5",
        model=other,
        optimizer=reader,
        mapping=dict(zip("ab", names)),
    )
    assert_equal(slots(optimizer, kernels), slots(reader, others))


@pytest.mark.skipif("new" not in FAMILIES, reason="needs Keras 2")
def test_a_saved_model_whose_layer_was_frozen_after_the_build_is_loaded(
    tmp_path, caplog
):
    (model, kernels), optimizer = two_layers("new", "ab"), wrapped_adam("new")
    model.compile(optimizer, "mse")
    train(optimizer, kernels)
    model.get_layer("a").trainable = False
    model.save(tmp_path / "m", save_format="tf")
    loaded = KERASES["new"].models.load_model(tmp_path / "m")
    np.testing.assert_array_equal(model.get_weights(), loaded.get_weights())
    assert "does not fit" in caplog.text
