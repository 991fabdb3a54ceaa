"""One optimizer for two lists of variables in turn, as NVIDIA's DLRM has it.

The legacy family makes slots as it goes. The others are built once, for all variables.
"""

import functools

import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, STYLES, bare_step, here
from tests.refused import refused

MODES = {"eager": lambda function: function, "traced": tf.function}
BUILT = here("keras3", "new")  # the families that are built once
ORDERS = ["xxy", "xyx", "yyx"]
modes_and_styles = pytest.mark.parametrize(
    "mode, style",
    [
        ("eager", "legacy"),
        pytest.param("eager", "keras3", marks=pytest.mark.slow),
        ("traced", "legacy"),
    ],
)


class Model:
    """Two lists of variables, and a step for each."""

    def __init__(self, optimizer, mode="eager", style="bare"):
        self.x = [tf.Variable(0.0, name="x1"), tf.Variable(0.0, name="x2")]
        self.y = [tf.Variable(0.0, name="y1")]
        self.optimizer = optimizer

        take = {"bare": bare_step, **STYLES}[style]

        def step(variables, factor):
            take(optimizer, lambda: 2.0 * sum(variables) * factor, variables)

        lists = {"x": self.x, "y": self.y, "xy": [*self.x, *self.y]}
        self.steps = {
            name: MODES[mode](functools.partial(step, variables))
            for name, variables in lists.items()
        }

    def step(self, which, factor=1.0):
        self.steps[which](tf.constant(factor))

    @property
    def values(self):
        return [float(variable) for variable in (*self.x, *self.y)]


def made(family):
    return FAMILIES[family].SGD(0.5, momentum=0.5)


def wrapped(family):
    return tf_lso.LossScaleOptimizer(made(family), initial_scale=8.0)


def check_steps(model, order):
    """The steps are those of a bare legacy optimizer, which makes slots as it goes."""
    bare = Model(made("legacy"))
    for which in order:
        bare.step(which)
        model.step(which)
        assert model.values == bare.values
    assert int(model.optimizer.iterations.numpy()) == len(order)


@modes_and_styles
@pytest.mark.parametrize("order", ORDERS)
def test_the_legacy_family_makes_slots_as_it_goes(order, style, mode):
    check_steps(Model(wrapped("legacy"), mode, style), order)


@modes_and_styles
@pytest.mark.parametrize("first, second", ["xy", "yx"])
def test_steps_of_the_legacy_family_are_skipped_for_either_list(
    first, second, style, mode
):
    model = Model(wrapped("legacy"), mode, style)
    names = {"x": [("x1", "nan"), ("x2", "nan")], "y": [("y1", "nan")]}
    model.step(first)
    before = model.values
    for which, scale in ((second, 4.0), (first, 2.0)):
        model.step(which, float("nan"))
        assert model.values == before
        assert model.optimizer.last_overflow == names[which]
        assert float(model.optimizer.loss_scale) == scale
    model.step(second)
    assert model.values != before


@modes_and_styles
@pytest.mark.parametrize("first, second", [*["xy", "yx"], ("x", "xy")])
@pytest.mark.parametrize("family", BUILT)
def test_the_other_families_name_the_two_ways_out(family, first, second, style, mode):
    model = Model(wrapped(family), mode, style)
    model.step(first)
    before = model.values
    ways = "optimizer.build(all_variables) ... before the first step ... legacy class"
    named = f"Unknown variables ... {second[-1]}1 ... .optimizers.legacy.SGD"
    with refused(f"ValueError: {named} ... {ways}"):
        model.step(second)
    assert model.values == before
    assert int(model.optimizer.iterations.numpy()) == 1
    model.step(first)
    assert model.values != before


@modes_and_styles
@pytest.mark.parametrize("order", ["xyx", "yxy"])
@pytest.mark.parametrize("family", FAMILIES)
def test_both_lists_train_once_it_is_built_for_all(family, order, style, mode):
    model = Model(wrapped(family), mode, style)
    model.optimizer.build([*model.x, *model.y])
    check_steps(model, order)


@pytest.mark.parametrize("family", BUILT)
def test_the_message_is_the_same_for_apply_with_another_list(family):
    model = Model(wrapped(family))
    model.optimizer.build(model.x)
    with refused("ValueError: Unknown variables ... optimizer.build("):
        model.optimizer.apply([tf.constant(1.0)], model.y)
    assert model.values == [0.0, 0.0, 0.0]
