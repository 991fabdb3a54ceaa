"""One optimizer that trains two lists of variables in turn, as in NVIDIA's DLRM.

A legacy optimizer makes the slots of a variable at the first step for this variable. The other
optimizers are built once, so they must be built for all variables before the first step.
"""

import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, here, legacy_step
from tests.refused import refused

eager_and_traced = pytest.mark.parametrize("is_traced", [False, True])
# The value of a variable after 0, 1 and 2 steps with the gradient 2.
AFTER = [0.0, -1.0, -2.5]


class Model:
    """Two lists of variables, "x" and "y", and a step for each list and for both, "xy"."""

    def __init__(self, family, is_traced):
        x = [tf.Variable(0.0, name="x1"), tf.Variable(0.0, name="x2")]
        y = [tf.Variable(0.0, name="y1")]
        self.variables = [*x, *y]
        inner = FAMILIES[family].SGD(0.5, momentum=0.5)
        self.optimizer = tf_lso.LossScaleOptimizer(inner, initial_scale=8.0)
        self.steps = {}
        for name, variables in {"x": x, "y": y, "xy": self.variables}.items():

            def step(variables=variables):
                legacy_step(self.optimizer, lambda: 2.0 * sum(variables), variables)

            self.steps[name] = tf.function(step) if is_traced else step

    @property
    def values(self):
        return [float(variable) for variable in self.variables]

    def check_steps(self, lists):
        """Train the lists in this order, and check the values of their variables."""
        for name in lists:
            self.steps[name]()
        x, y = AFTER[lists.count("x")], AFTER[lists.count("y")]
        assert self.values == [x, x, y]
        assert int(self.optimizer.iterations.numpy()) == len(lists)


@eager_and_traced
@pytest.mark.parametrize("lists", ["xxy", "yxy"])
def test_a_legacy_optimizer_makes_slots_when_it_needs_them(lists, is_traced):
    Model("legacy", is_traced).check_steps(lists)


@eager_and_traced
@pytest.mark.parametrize(
    "first, second, unknown", [("y", "x", "x1"), ("x", "xy", "y1")]
)
@pytest.mark.parametrize("family", here("keras3", "new"))
def test_the_other_families_refuse_variables_for_which_they_were_not_built(
    family, first, second, unknown, is_traced
):
    model = Model(family, is_traced)
    model.steps[first]()
    before = model.values
    # Keras 3 cannot compile a model with a legacy optimizer.
    remedy = "new optimizer" if family == "keras3" else "optimizers.legacy.SGD"
    with refused(
        f"ValueError: Unknown variables ... {unknown} ... optimizer.build(all_variables) "
        f"... before the first step, or ... {remedy}"
    ):
        model.steps[second]()
    assert model.values == before
    assert int(model.optimizer.iterations.numpy()) == 1
    model.steps[first]()
    assert model.values != before


@eager_and_traced
def test_an_optimizer_that_was_built_for_all_variables_trains_both_lists(
    family, is_traced
):
    model = Model(family, is_traced)
    model.optimizer.build(model.variables)
    model.check_steps("xyx")


def test_a_legacy_optimizer_lists_slots_in_the_order_of_the_first_gradients():
    x, y = tf.Variable([0.0], name="x"), tf.Variable([0.0], name="y")
    optimizer = tf_lso.LossScaleOptimizer(FAMILIES["legacy"].Adam(0.5))
    gradient = tf.constant([2.0])

    def slots():
        return [variable.name.split("Adam/")[1] for variable in optimizer.variables()]

    optimizer.apply_gradients([(gradient, x), (None, y)])
    assert slots() == ["iter:0", "x/m:0", "x/v:0"]
    optimizer.apply_gradients([(gradient, y)])
    assert slots() == ["iter:0", "x/m:0", "y/m:0", "x/v:0", "y/v:0"]
