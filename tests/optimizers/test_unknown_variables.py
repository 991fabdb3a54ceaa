"""One optimizer that trains two lists of variables in turn, as in NVIDIA's DLRM.

A legacy optimizer makes the slots of a variable at the first step for this variable. The other
optimizers are built once, so they must be built for all variables before the first step.
"""

import functools

import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, bare_step, here, legacy_step
from tests.refused import refused

MODES = {"eager": lambda function: function, "traced": tf.function}
BUILT_ONCE = here("keras3", "new")
eager_and_traced = pytest.mark.parametrize("mode", MODES)


class Model:
    """Two lists of variables, "x" and "y", and a step for each list and for both, "xy"."""

    def __init__(self, optimizer, mode="eager"):
        self.x = [tf.Variable(0.0, name="x1"), tf.Variable(0.0, name="x2")]
        self.y = [tf.Variable(0.0, name="y1")]
        self.optimizer = optimizer
        is_wrapped = isinstance(optimizer, tf_lso.LossScaleOptimizer)
        take_step = legacy_step if is_wrapped else bare_step

        def step(variables, factor):
            take_step(optimizer, lambda: 2.0 * sum(variables) * factor, variables)

        lists = {"x": self.x, "y": self.y, "xy": [*self.x, *self.y]}
        self.steps = {
            name: MODES[mode](functools.partial(step, variables))
            for name, variables in lists.items()
        }

    def step(self, name, factor=1.0):
        self.steps[name](tf.constant(factor))

    @property
    def values(self):
        return [float(variable) for variable in (*self.x, *self.y)]


def bare_optimizer(family):
    return FAMILIES[family].SGD(0.5, momentum=0.5)


def loss_scale_optimizer(family):
    return tf_lso.LossScaleOptimizer(bare_optimizer(family), initial_scale=8.0)


def check_steps(model, lists):
    """Check that a model trains its lists like a bare legacy optimizer."""
    bare = Model(bare_optimizer("legacy"))
    for name in lists:
        bare.step(name)
        model.step(name)
        assert model.values == bare.values
    assert int(model.optimizer.iterations.numpy()) == len(lists)


@eager_and_traced
@pytest.mark.parametrize("lists", [("x", "x", "y"), ("y", "x", "y")])
def test_a_legacy_optimizer_makes_slots_when_it_needs_them(lists, mode):
    check_steps(Model(loss_scale_optimizer("legacy"), mode), lists)


@eager_and_traced
@pytest.mark.parametrize("first, second", [("x", "y"), ("y", "x")])
def test_a_legacy_optimizer_skips_steps_of_either_list(first, second, mode):
    model = Model(loss_scale_optimizer("legacy"), mode)
    overflows = {"x": [("x1", "nan"), ("x2", "nan")], "y": [("y1", "nan")]}
    model.step(first)
    before = model.values
    for name, scale in ((second, 4.0), (first, 2.0)):
        model.step(name, float("nan"))
        assert model.values == before
        assert model.optimizer.last_overflow == overflows[name]
        assert float(model.optimizer.loss_scale) == scale
    model.step(second)
    assert model.values != before


@eager_and_traced
@pytest.mark.parametrize(
    "first, second, unknown", [("y", "x", "x1"), ("x", "xy", "y1")]
)
@pytest.mark.parametrize("family", BUILT_ONCE)
def test_the_other_families_refuse_variables_for_which_they_were_not_built(
    family, first, second, unknown, mode
):
    model = Model(loss_scale_optimizer(family), mode)
    model.step(first)
    before = model.values
    # Keras 3 cannot compile a model with a legacy optimizer.
    remedy = "new optimizer" if family == "keras3" else "optimizers.legacy.SGD"
    with refused(
        f"ValueError: Unknown variables ... {unknown} ... optimizer.build(all_variables) "
        f"... before the first step, or ... {remedy}"
    ):
        model.step(second)
    assert model.values == before
    assert int(model.optimizer.iterations.numpy()) == 1
    model.step(first)
    assert model.values != before


@eager_and_traced
def test_an_optimizer_that_was_built_for_all_variables_trains_both_lists(family, mode):
    model = Model(loss_scale_optimizer(family), mode)
    model.optimizer.build([*model.x, *model.y])
    check_steps(model, ("x", "y", "x"))


@pytest.mark.parametrize("family", BUILT_ONCE)
def test_apply_refuses_variables_for_which_the_optimizer_was_not_built(family):
    model = Model(loss_scale_optimizer(family))
    model.optimizer.build(model.x)
    with refused("ValueError: Unknown variables ... optimizer.build("):
        model.optimizer.apply([tf.constant(1.0)], model.y)
    assert model.values == [0.0, 0.0, 0.0]
