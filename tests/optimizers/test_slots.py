"""Slot variables under the names of OptimizerV2, for every family."""

import itertools

import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, copies, here, keras, keras2, needs_keras3, raw
from tests.generation import NO_LAMB
from tf_lso.frameworks import optimizer_table as table

# What a class must be told to make all its slots.
ARGUMENTS = {
    "SGD": {"momentum": 0.9},
    "RMSprop": {"momentum": 0.9, "centered": True},
    "Adam": {"amsgrad": True},
    "AdamW": {"amsgrad": True},
}
SLOTS = {name: facts.slots for name, facts in table.OPTIMIZERS.items()}
LEGACY = [name for name in SLOTS if hasattr(keras2.optimizers.legacy, name)]
BUILT_SLOTS = [
    pytest.param(family, name, slot, marks=NO_LAMB if name == "Lamb" else ())
    for family in here("keras3", "new")
    for name in SLOTS
    for slot in SLOTS[name]
    if family == "keras3" or hasattr(keras2.optimizers, name)
]


def with_all_slots(family, name, **arguments):
    """A bare optimizer."""
    return getattr(FAMILIES[family], name)(**ARGUMENTS.get(name, {}), **arguments)


def wrap(family, name, *variables, **arguments):
    """An optimizer with all its slots, built for `variables` by a step."""
    optimizer = tf_lso.LossScaleOptimizer(with_all_slots(family, name, **arguments))
    optimizer.apply_gradients([(tf.ones(v.shape), v) for v in variables])
    return optimizer


@pytest.fixture
def variables():
    return [tf.Variable([[1.0, 2.0]], name="x"), tf.Variable([3.0], name="y")]


@pytest.mark.parametrize("family, name, slot", BUILT_SLOTS)
def test_the_table_names_lists_that_newer_optimizers_have_built(
    family, name, slot, variables
):
    inner = with_all_slots(family, name)
    inner.build(variables)
    (attribute,) = [n for n in SLOTS[name][slot].split("|") if hasattr(inner, n)]
    assert len(getattr(inner, attribute)) == 2


@pytest.mark.parametrize("name", LEGACY)
def test_every_family_gives_the_slot_of_each_variable(family, name, variables):
    unbuilt = tf_lso.LossScaleOptimizer(with_all_slots(family, name))
    assert unbuilt.get_slot_names() == []
    optimizer = wrap(family, name, *variables)
    assert isinstance(optimizer.get_slot_names(), list)
    assert set(optimizer.get_slot_names()) == set(SLOTS[name])
    weights, seen = {id(raw(w)) for w in optimizer.weights}, set()
    for variable, slot in itertools.product(variables, SLOTS[name]):
        found = optimizer.get_slot(variable, slot)
        assert found.shape == variable.shape
        seen.add(id(raw(found)))
    assert seen <= weights and len(seen) == 2 * len(SLOTS[name])


def test_slots_that_were_not_asked_for_are_not_named(family, variables):
    class Mine(FAMILIES[family].Adam):  # which has the slots of its base
        pass

    optimizer = tf_lso.LossScaleOptimizer(Mine(0.1))
    optimizer.apply_gradients([(tf.ones((1, 2)), variables[0])])
    assert set(optimizer.get_slot_names()) == {"m", "v"}
    for name in ("vhat", "nope"):
        with pytest.raises(KeyError, match=name):
            optimizer.get_slot(variables[0], name)
    with pytest.raises(KeyError):
        optimizer.get_slot(tf.Variable(1.0), "m")


@pytest.mark.parametrize(
    ("family", "name"),
    [
        (family, name)
        for family in here("keras3", "new")
        for name in ("Lion", "Lamb", "Adafactor", "AdamW")
        if hasattr(FAMILIES[family], name)
    ],
)
def test_newer_optimizers_have_slots_too(family, name, variables):
    optimizer = wrap(family, name, *variables)
    assert {"m", "r"} & set(optimizer.get_slot_names())
    for slot in optimizer.get_slot_names():
        assert optimizer.get_slot(variables[0], slot) is not None


@pytest.mark.parametrize("family", ["keras3", "new"])
def test_averages_are_a_slot(family, variables):
    optimizer = wrap(family, "SGD", *variables, use_ema=True)
    assert "average" in optimizer.get_slot_names()
    assert optimizer.get_slot(variables[0], "average").shape == (1, 2)


@needs_keras3
def test_the_slot_of_a_keras_variable():
    x = keras.Variable([1.0])
    assert wrap("keras3", "Adam", x).get_slot(x, "m").shape == (1,)


def test_add_slot_makes_a_variable_of_the_shape_or_gives_the_one_there_is(
    family, variables
):
    optimizer = wrap(family, "SGD", *variables)
    before = len(optimizer.weights)
    slot = optimizer.add_slot(variables[0], "extra", "ones")
    assert copies(slot)[0].tolist() == [[1.0, 1.0]]
    assert "extra" in optimizer.get_slot_names()
    for method in (optimizer.get_slot, optimizer.add_slot):
        assert raw(method(variables[0], "extra")) is raw(slot)
    assert copies(slot)[0].tolist() == [[1.0, 1.0]]
    assert len(optimizer.weights) == before + 1
    assert any(raw(slot) is raw(w) for w in optimizer.weights)
    assert raw(optimizer.add_slot(variables[1], "extra")) is not raw(slot)
    momentum = optimizer.get_slot(variables[0], "momentum")
    assert raw(optimizer.add_slot(variables[0], "momentum")) is raw(momentum)
    with pytest.raises(KeyError):
        wrap(family, "SGD", *variables).get_slot(variables[0], "extra")


@pytest.mark.parametrize("dtype", [tf.float32, tf.int64, tf.float64])
def test_add_weight_makes_a_variable_of_the_inner_optimizer(family, dtype):
    optimizer = tf_lso.LossScaleOptimizer(FAMILIES[family].SGD())
    weight = optimizer.add_weight("extra", (2,), dtype, "ones", trainable=False)
    assert copies(weight)[0].tolist() == [1.0, 1.0]
    assert raw(weight).dtype == dtype
    if family != "legacy":  # OptimizerV2 lists its step counter and slots alone
        assert any(raw(weight) is raw(w) for w in optimizer.weights)
