"""A file says whose state it holds, so no state goes to the wrong variable.

The layers of the models have equal shapes, as the repeated blocks of most models. So only names
tell the slots apart. Each row of `DIFFERENCES` makes a writer and a reader that differ in one
thing, and `OUTCOMES` says what must happen in each format:

- equal: the reader has the state of the writer, layer by layer and slot by slot.
- refused: an error, and the optimizer of the reader is unchanged.
- told: a warning, and the optimizer of the reader is unchanged. Keras does so, too.
- shared: layers that only one of them trains are left out. The others are equal.
"""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, KERASES, OLD_KERAS3, here, numpy
from tests.generation import ZIPPED
from tests.state import transfer
from tests.state.programs import assert_equal

pytestmark = [
    pytest.mark.usefixtures("installed"),
    pytest.mark.skipif(
        OLD_KERAS3, reason="Keras 3.0 saves no optimizer in checkpoints"
    ),
]


def make_model(family, names=("a", "b", "c"), frozen=()):
    """Return a model of equal layers. If a name is None, Keras names the layer."""
    keras = KERASES[family]
    layers = [keras.layers.Dense(3, use_bias=False, name=name) for name in names]
    model = keras.Sequential([keras.layers.InputLayer((3,)), *layers])
    for name in frozen:
        model.get_layer(name).trainable = False
    return model


class Program:
    """A model with a wrapped optimizer."""

    def __init__(self, family, name="Adam", rate=0.1, order=1, model=(), **arguments):
        self.model = make_model(family, **dict(model))
        cls = OwnAdam(family) if name == "OwnAdam" else getattr(FAMILIES[family], name)
        if rate == "schedule":
            rate = KERASES[family].optimizers.schedules.InverseTimeDecay(0.1, 1, 0.5)
        inner = cls(rate, **arguments)
        self.optimizer = tf_lso.LossScaleOptimizer(inner, initial_scale=8)
        self.order = order

    @property
    def pair(self):
        return self.model, self.optimizer

    def build(self):
        self.optimizer.build(self.model.trainable_variables[:: self.order])

    def train(self):
        """Take two steps with other gradients for each layer."""
        self.build()
        for step in (1.0, 2.0):
            gradients = [
                (tf.fill(layer.kernel.shape, step + 3 * number), layer.kernel)
                for number, layer in enumerate(self.model.layers)
                if layer.trainable
            ]
            scaled = [(8 * gradient, kernel) for gradient, kernel in gradients]
            self.optimizer.get_scaled_loss(tf.constant(1.0))
            unscaled = self.optimizer.get_unscaled_gradients([g for g, _ in scaled])
            self.optimizer.apply_gradients(zip(unscaled, [k for _, k in gradients]))

    def slots(self):
        """Return {(name of the slot, number of the layer): value}."""
        return {
            (name, number): np.array(numpy(self.optimizer.get_slot(layer.kernel, name)))
            for number, layer in enumerate(self.model.layers)
            if layer.trainable
            for name in self.optimizer.get_slot_names()
        }

    def state(self):
        return self.slots() | {
            "iterations": int(numpy(self.optimizer.iterations)),
            "scale": float(self.optimizer.loss_scale),
            **{f"weights {i}": w for i, w in enumerate(self.model.get_weights())},
        }


def OwnAdam(family):
    return type("OwnAdam", (FAMILIES[family].Adam,), {})


# --- The formats, as in `transfer`.


def bare_checkpoint(writer, reader, folder):
    """A checkpoint of the optimizer without `tf_lso`, which tells no more than its graph."""
    model, optimizer = writer
    transfer.checkpoint((model, optimizer.inner_optimizer), reader, folder)


FORMATS = {
    "checkpoint": transfer.checkpoint,
    "checkpoint without tf_lso": bare_checkpoint,
    ".weights.h5": transfer.weights_file,
    "restore of .keras": transfer.restored("m.keras", **ZIPPED),
    "restore of .h5": transfer.restored("m.h5"),
}

# Rows of (arguments of the program that writes, arguments of the program that reads). An
# argument is one of `Program` or of the optimizer.
FIRST, LAST = {"model": {"frozen": ["a"]}}, {"model": {"frozen": ["c"]}}
DIFFERENCES = {
    "none": ({}, {}),
    "Nadam": ({"name": "Nadam"}, {"name": "Nadam"}),
    "order of the build": ({"order": -1}, {}),
    "order of the build of Nadam": ({"name": "Nadam", "order": -1}, {"name": "Nadam"}),
    "frozen layer": (FIRST, LAST),
    "one more frozen layer": ({}, LAST),
    "same frozen layer": (FIRST, FIRST),
    "names of layers": ({"model": {"names": "abc"}}, {"model": {"names": "xyz"}}),
    "second model": ({"model": {"names": [None] * 3}},) * 2,
    "class": ({}, {"name": "Adamax"}),
    "no slots in the file": ({"name": "SGD"}, {"name": "RMSprop"}),
    "amsgrad": ({}, {"amsgrad": True}),
    "amsgrad in the file": ({"amsgrad": True}, {}),
    "use_ema": ({}, {"use_ema": True}),
    "amsgrad against use_ema": ({"amsgrad": True}, {"use_ema": True}),
    "accumulation": ({}, {"gradient_accumulation_steps": 2}),
    "amsgrad against accumulation": (
        {"amsgrad": True},
        {"gradient_accumulation_steps": 2},
    ),
    "momentum against centered": (
        {"name": "RMSprop", "momentum": 0.5},
        {"name": "RMSprop", "centered": True},
    ),
    "schedule": ({"rate": "schedule"}, {}),
    "number": ({}, {"rate": "schedule"}),
    "class of a user": ({}, {"name": "OwnAdam"}),
}
REFUSED = {
    "checkpoint": "refused",
    "checkpoint without tf_lso": "refused",
    ".weights.h5": "told",
    "restore of .keras": "refused",
    "restore of .h5": "refused",
}
EQUAL = dict.fromkeys(FORMATS, "equal")
# A file does not say whether the layers of a model are the renamed layers of another.
OUTCOMES = {name: REFUSED for name in DIFFERENCES} | {
    "none": EQUAL,
    "Nadam": EQUAL,
    "order of the build": EQUAL,
    "order of the build of Nadam": EQUAL,
    "same frozen layer": EQUAL,
    "second model": EQUAL,
}
# What differs in some formats or families. `restore` finds layers by their place in the model,
# and takes a number for a schedule. In a checkpoint with the model, and in a .h5 file that
# `restore` reads, the slots of a layer follow its weights.
EXCEPTIONS = {
    ("names of layers", "checkpoint"): "equal",
    ("names of layers", "checkpoint without tf_lso"): "equal",
    ("names of layers", "restore of .h5"): "equal",
    ("schedule", "restore of .keras"): None,
    ("schedule", "restore of .h5"): None,
    ("number", "restore of .keras"): None,
    ("number", "restore of .h5"): None,
    ("accumulation", "restore of .keras"): None,
    ("accumulation", "restore of .h5"): None,
    ("class of a user", "checkpoint without tf_lso"): "equal",
    ("class of a user", "restore of .keras"): None,
    ("class of a user", "restore of .h5"): None,
}
# TensorFlow itself restores each slot of a legacy optimizer by its variable.
EXCEPTIONS_OF_LEGACY = {
    ("frozen layer", "checkpoint"): "shared",
    ("frozen layer", "checkpoint without tf_lso"): "shared",
    ("one more frozen layer", "checkpoint"): "shared",
    ("one more frozen layer", "checkpoint without tf_lso"): "shared",
    ("class", "checkpoint without tf_lso"): None,
    ("no slots in the file", "checkpoint without tf_lso"): None,
    ("amsgrad", "checkpoint without tf_lso"): None,
}


def has(family, difference):
    """Return whether the optimizers of a family have the arguments of a row."""
    if family == "keras3":
        return True
    words = ["accumulation", "schedule", "number"]
    words += ["use_ema"] if family == "legacy" else []
    return not any(word in difference for word in words)


def outcome(family, difference, name):
    if not has(family, difference):
        return None
    key = (difference, name)
    found = EXCEPTIONS.get(key, OUTCOMES[difference][name])
    return EXCEPTIONS_OF_LEGACY.get(key, found) if family == "legacy" else found


def _marks(family, difference, name, built):
    if difference == "order of the build" and name in ("checkpoint", ".weights.h5"):
        return pytest.mark.core
    is_quick = family == "keras3" or name in ("checkpoint", ".weights.h5")
    return () if built and is_quick else pytest.mark.slow


CASES = [
    pytest.param(
        *(family, difference, name, built),
        marks=_marks(family, difference, name, built),
        id=f"{difference}, {name}, {family}, {'built' if built else 'not built'}",
    )
    for family in FAMILIES
    for difference in DIFFERENCES
    for name in FORMATS
    for built in (True, False)
    if outcome(family, difference, name)
]


@pytest.mark.parametrize(("family", "difference", "name", "built"), CASES)
def test_state_goes_to_its_own_variable(
    family, difference, name, built, tmp_path, caplog
):
    of_writer, of_reader = DIFFERENCES[difference]
    writer, reader = Program(family, **of_writer), Program(family, **of_reader)
    writer.train()
    expected = writer.state()
    if built:
        reader.build()
        before = reader.slots()
    wanted = outcome(family, difference, name)
    if wanted == "refused":
        with pytest.raises(ValueError, match=r"file|checkpoint"):
            load_and_build(FORMATS[name], writer, reader, tmp_path)
        if built:
            assert_equal(before, reader.slots())
            assert int(numpy(reader.optimizer.iterations)) == 0
        return
    load_and_build(FORMATS[name], writer, reader, tmp_path)
    actual = reader.state()
    if "without" in name:
        actual["scale"] = expected["scale"]  # no wrapper has saved it
    if wanted == "equal":
        assert_equal(expected, actual)
        assert "made in another order" not in caplog.text
    elif wanted == "shared":
        shared = expected.keys() & actual.keys()
        assert ("m", 1) in shared
        assert_equal({k: expected[k] for k in shared}, {k: actual[k] for k in shared})
    else:
        assert "does not fit" in caplog.text
        assert actual["iterations"] == 0
        if built:
            assert_equal(before, reader.slots())


@pytest.mark.parametrize("built", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_weights_file_with_a_dynamic_scale_is_restored_into_a_fixed_scale(
    family, built, tmp_path, caplog
):
    """Keras loads only the model, and the warning names the call that loads all."""
    writer, reader = Program(family), Program(family)
    writer.train()
    inner = FAMILIES[family].Adam(0.1)
    reader.optimizer = tf_lso.LossScaleOptimizer(inner, False, initial_scale=16)
    if built:
        reader.build()
    load_and_build(transfer.weights_file, writer, reader, tmp_path)
    assert "tf_lso.checkpoints.restore(path" in caplog.text
    assert int(numpy(reader.optimizer.iterations)) == 0
    assert not any(np.any(slot) for slot in reader.slots().values())
    path, model, optimizer = tmp_path / "m.weights.h5", *reader.pair
    tf_lso.checkpoints.restore(path, model=model, optimizer=optimizer)
    assert_equal({**writer.state(), "scale": 16.0}, reader.state())


def load_and_build(load, writer, reader, folder):
    load(writer.pair, reader.pair, folder)
    reader.build()


# --- A program loads its own file, and the optimizer was built in another order.

MODELS = {".keras": ("m.keras", ZIPPED), ".h5": ("m.h5", {})}
MODELS_OF_KERAS_2 = {**MODELS, "SavedModel": ("m", {"save_format": "tf"})}


@pytest.mark.parametrize(
    ("family", "name"),
    [
        (family, name)
        for family in FAMILIES
        for name in (MODELS if family == "keras3" else MODELS_OF_KERAS_2)
    ],
)
def test_a_model_whose_optimizer_was_built_in_another_order_is_loaded(
    family, name, tmp_path
):
    file, arguments = MODELS_OF_KERAS_2[name]
    writer = Program(family, order=-1)
    writer.train()
    writer.model.compile(writer.optimizer, "mse")
    writer.model.save(tmp_path / file, **arguments)
    loaded = Program(family)
    loaded.model = KERASES[family].models.load_model(tmp_path / file)
    loaded.optimizer = loaded.model.optimizer
    assert_equal(writer.state(), loaded.state())


# --- No model weight is restored through the optimizer.


@pytest.mark.parametrize("family", FAMILIES)
def test_a_checkpoint_of_an_optimizer_restores_no_weight_of_a_model(family, tmp_path):
    writer, reader = Program(family), Program(family)
    writer.train()
    reader.build()
    before = reader.model.get_weights()
    path = tf.train.Checkpoint(optimizer=writer.optimizer).save(tmp_path / "c")
    tf.train.Checkpoint(optimizer=reader.optimizer).restore(path).expect_partial()
    for expected, actual in zip(before, reader.model.get_weights(), strict=True):
        np.testing.assert_array_equal(expected, actual)
    if family != "legacy":  # a legacy optimizer finds its slots through the model
        assert_equal(writer.slots(), reader.slots())


@pytest.mark.parametrize("family", here("keras3", "new"))
def test_a_checkpoint_with_a_part_of_the_model_restores_all_slots(family, tmp_path):
    writer, reader = Program(family), Program(family)
    writer.train()
    reader.build()

    def checkpoint(program):
        layer = program.model.layers[0]
        return tf.train.Checkpoint(layer=layer, optimizer=program.optimizer)

    path = checkpoint(writer).save(tmp_path / "c")
    checkpoint(reader).restore(path).expect_partial()
    assert_equal(writer.slots(), reader.slots())


# --- Files from before the first step.


@pytest.mark.parametrize("name", ["Adam", "RMSprop", "Adagrad"])
@pytest.mark.parametrize("family", FAMILIES)
def test_slots_start_again_from_a_checkpoint_before_the_first_step(
    family, name, tmp_path, caplog
):
    program = Program(family, name)
    checkpoint = tf.train.Checkpoint(model=program.model, optimizer=program.optimizer)
    path = checkpoint.save(tmp_path / "c")
    program.train()
    first = Program(family, name)
    first.build()
    trained = program.slots()
    assert any(not np.array_equal(trained[k], v) for k, v in first.slots().items())
    checkpoint.restore(path)
    assert_equal(first.slots(), program.slots())
    assert int(numpy(program.optimizer.iterations)) == 0
    assert "so the slots are reset" in caplog.text


@pytest.mark.parametrize("family", here("keras3", "new"))
def test_an_optimizer_without_a_step_need_not_start_again(family, tmp_path, caplog):
    """tf_lso does not know the first values of averages."""
    optimizer = tf_lso.LossScaleOptimizer(FAMILIES[family].SGD(0.1, use_ema=True))
    checkpoint = tf.train.Checkpoint(optimizer=optimizer)
    path = checkpoint.save(tmp_path / "c")
    optimizer.build([tf.Variable([1.0], name="x")])
    checkpoint.restore(path)
    assert "the slots are reset" not in caplog.text


@pytest.mark.parametrize("family", here("keras3", "new"))
def test_a_trained_optimizer_of_unknown_slots_does_not_go_back_before_its_first_step(
    family, tmp_path
):
    class Own(FAMILIES[family].SGD):
        def build(self, variables):
            super().build(variables)
            self.own = [self.add_variable_from_reference(v, "own") for v in variables]

    optimizer, x = tf_lso.LossScaleOptimizer(Own(0.1)), tf.Variable([1.0], name="x")
    checkpoint = tf.train.Checkpoint(optimizer=optimizer, x=x)
    path = checkpoint.save(tmp_path / "c")
    optimizer.apply_gradients([(tf.constant([1.0]), x)])
    with pytest.raises(ValueError, match="first values of its slots are unknown"):
        checkpoint.restore(path)
    assert int(numpy(optimizer.iterations)) == 1
