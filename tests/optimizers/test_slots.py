"""Slot variables, which have the names of OptimizerV2 with every family."""

import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, copies, here, keras, needs_keras3, raw
from tests.generation import NO_CHECKPOINT
from tf_lso.frameworks import optimizer_table as table

# The arguments with which a class makes all its slots.
ARGUMENTS = {
    "SGD": {"momentum": 0.9},
    "RMSprop": {"momentum": 0.9, "centered": True},
    "Adam": {"amsgrad": True},
    "AdamW": {"amsgrad": True},
}
# Maps a class to its slots.
SLOTS = {name: facts.slots for name, facts in table.OPTIMIZERS.items()}


def bare_optimizer(family, name, **arguments):
    """Return an optimizer that will have all the slots that its class can have."""
    return getattr(FAMILIES[family], name)(**ARGUMENTS.get(name, {}), **arguments)


def stepped_optimizer(family, name, *variables, **arguments):
    """Return a wrapped optimizer that has taken a step, so that its slots exist."""
    optimizer = tf_lso.LossScaleOptimizer(bare_optimizer(family, name, **arguments))
    optimizer.apply_gradients([(tf.ones(v.shape), v) for v in variables])
    return optimizer


@pytest.fixture
def variables():
    return [tf.Variable([[1.0, 2.0]], name="x"), tf.Variable([3.0], name="y")]


@pytest.mark.parametrize(
    ("family", "name"),
    [
        (family, name)
        for family, optimizers in FAMILIES.items()
        for name in SLOTS
        if hasattr(optimizers, name) and name != "Adafactor"
    ],
)
def test_get_slot_returns_each_slot_of_each_variable(family, name, variables):
    unbuilt = tf_lso.LossScaleOptimizer(bare_optimizer(family, name))
    assert unbuilt.get_slot_names() == []
    optimizer = stepped_optimizer(family, name, *variables)
    assert isinstance(optimizer.get_slot_names(), list)
    assert set(optimizer.get_slot_names()) == set(SLOTS[name])
    ids_of_weights = {id(raw(weight)) for weight in optimizer.weights}
    ids_of_slots = set()
    for variable in variables:
        for slot_name in SLOTS[name]:
            slot = optimizer.get_slot(variable, slot_name)
            assert slot.shape == variable.shape
            ids_of_slots.add(id(raw(slot)))
    assert ids_of_slots <= ids_of_weights
    assert len(ids_of_slots) == len(variables) * len(SLOTS[name])


def test_a_users_subclass_has_the_slots_that_its_base_class_makes(family, variables):
    class Subclass(FAMILIES[family].Adam):
        pass

    optimizer = tf_lso.LossScaleOptimizer(Subclass(0.1))
    optimizer.apply_gradients([(tf.ones((1, 2)), variables[0])])
    # Without `amsgrad`, there is no slot "vhat".
    assert set(optimizer.get_slot_names()) == {"m", "v"}


def test_get_slot_raises_key_error_for_an_unknown_slot_or_variable(family, variables):
    optimizer = tf_lso.LossScaleOptimizer(FAMILIES[family].Adam(0.1))
    optimizer.apply_gradients([(tf.ones((1, 2)), variables[0])])
    for name in ("vhat", "nope"):
        with pytest.raises(KeyError, match=name):
            optimizer.get_slot(variables[0], name)
    with pytest.raises(KeyError):
        optimizer.get_slot(tf.Variable(1.0), "m")


@pytest.mark.parametrize("family", here("keras3", "new"))
def test_adafactor_has_slots_of_other_shapes(family, variables):
    optimizer = stepped_optimizer(family, "Adafactor", *variables)
    slots = [optimizer.get_slot(variables[0], name) for name in ("r", "c", "v")]
    assert [slot.shape for slot in slots] == [(1,), (2,), (1, 2)]


@pytest.mark.parametrize("family", ["keras3", "new"])
def test_the_averages_of_use_ema_are_the_slot_average(family, variables):
    optimizer = stepped_optimizer(family, "SGD", *variables, use_ema=True)
    assert "average" in optimizer.get_slot_names()
    assert optimizer.get_slot(variables[0], "average").shape == (1, 2)


@needs_keras3
def test_get_slot_accepts_a_keras_variable():
    x = keras.Variable([1.0])
    assert stepped_optimizer("keras3", "Adam", x).get_slot(x, "m").shape == (1,)


def test_add_slot_makes_a_variable_of_the_same_shape(family, variables):
    x, y = variables
    optimizer = stepped_optimizer(family, "SGD", x, y)
    before = len(optimizer.weights)
    slot = optimizer.add_slot(x, "extra", "ones")
    assert copies(slot)[0].tolist() == [[1.0, 1.0]]
    assert "extra" in optimizer.get_slot_names()
    assert raw(optimizer.get_slot(x, "extra")) is raw(slot)
    assert len(optimizer.weights) == before + 1
    assert any(raw(slot) is raw(weight) for weight in optimizer.weights)
    assert raw(optimizer.add_slot(x, "extra")) is raw(slot)
    other = optimizer.add_slot(y, "extra")
    assert raw(other) is not raw(slot)
    assert copies(other)[0].tolist() == [0.0]
    momentum = optimizer.get_slot(x, "momentum")
    assert raw(optimizer.add_slot(x, "momentum")) is raw(momentum)
    with pytest.raises(KeyError):  # another optimizer does not get the slot
        stepped_optimizer(family, "SGD", x, y).get_slot(x, "extra")


def test_add_weight_makes_a_variable_of_the_inner_optimizer(family):
    optimizer = tf_lso.LossScaleOptimizer(FAMILIES[family].SGD())
    weight = optimizer.add_weight("extra", (2,), tf.int64, "ones", trainable=False)
    assert copies(weight)[0].tolist() == [1.0, 1.0]
    assert raw(weight).dtype == tf.int64
    if family != "legacy":
        weight = raw(optimizer.add_weight("another"))
        assert (weight.dtype, weight.shape) == (tf.float32, ())
    if family != "legacy":  # OptimizerV2 lists only its step counter and slots
        assert any(raw(weight) is raw(w) for w in optimizer.weights)


@pytest.mark.parametrize("family", [pytest.param("keras3", marks=NO_CHECKPOINT), "new"])
def test_restored_slots_survive_a_build_that_fails(family, tmp_path):
    class Own(FAMILIES[family].SGD):
        """An optimizer whose build can fail."""

        fails = False

        def build(self, *args):
            if self.fails:
                raise OSError("no build")
            super().build(*args)

    saved, x = tf_lso.LossScaleOptimizer(Own(0.1, 0.5)), tf.Variable(1.0)
    saved.apply_gradients([(tf.constant(2.0), x)])
    path = tf.train.Checkpoint(optimizer=saved).save(str(tmp_path / "ckpt"))
    optimizer = tf_lso.LossScaleOptimizer(Own(0.1, 0.5))
    tf.train.Checkpoint(optimizer=optimizer).restore(path)
    Own.fails = True
    with pytest.raises(OSError, match="no build"):
        optimizer.build([x])
    Own.fails = False
    optimizer.build([x])
    slots = [one.get_slot(x, "momentum") for one in (saved, optimizer)]
    assert float(raw(slots[1])) == float(raw(slots[0])) != 0.0
