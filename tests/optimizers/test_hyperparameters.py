"""Hyperparameters of the inner optimizer, which are read and set on the wrapper."""

import inspect
import logging

import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, keras2, needs_keras3, number
from tests.generation import NO_LAMB
from tf_lso.frameworks import optimizer_table as table

OPTIMIZER_V2 = {
    name: facts.hyperparameters
    for name, facts in table.OPTIMIZERS.items()
    if facts.hyperparameters
}
LEGACY = list(OPTIMIZER_V2)
NEWER = {"keras3": ("AdamW", "Lion", "Lamb", "Adafactor"), "new": ("AdamW",)}
# The numbers among the arguments of a constructor, without those of the base class. `epsilon`
# is no hyperparameter of OptimizerV2.
NUMBERS = {
    "AdamW": ("beta_1", "beta_2"),
    "Lion": ("beta_1", "beta_2"),
    "Lamb": ("beta_1", "beta_2"),
    "Adafactor": ("beta_2_decay", "epsilon_1", "epsilon_2", "clip_threshold"),
}
if hasattr(keras2.optimizers, "Lion"):  # not in 2.12
    NEWER["new"] += ("Lion",)

# A value that no hyperparameter has by default.
OTHER = 0.375


def wrap(family, name, **arguments):
    return tf_lso.LossScaleOptimizer(getattr(FAMILIES[family], name)(**arguments))


def assert_delegated(make_optimizer, names):
    """Check that attributes of the wrapper are read from and set on the inner optimizer."""
    assert names
    for name in names:
        optimizer = make_optimizer()
        assert name in dir(optimizer)
        setattr(optimizer.inner_optimizer, name, OTHER)
        assert number(getattr(optimizer, name)) == OTHER, name
        optimizer = make_optimizer()
        setattr(optimizer, name, OTHER)
        assert number(getattr(optimizer.inner_optimizer, name)) == OTHER, name
        assert name not in vars(optimizer)


@pytest.fixture
def warnings(caplog):
    """A function that returns the warnings that an attribute was set."""
    caplog.set_level(logging.WARNING, logger="tensorflow")
    return lambda name: [m for m in caplog.messages if f"'{name}' was set" in m]


def test_the_table_has_every_legacy_optimizer():
    classes = inspect.getmembers(keras2.optimizers.legacy, inspect.isclass)
    assert {name for name, _ in classes} - {"Optimizer"} == set(OPTIMIZER_V2)


@pytest.mark.parametrize("name", LEGACY)
def test_the_table_has_the_hyperparameters_of_the_legacy_class_for_every_family(name):
    inner = getattr(keras2.optimizers.legacy, name)()
    assert set(OPTIMIZER_V2[name]) == set(inner._hyper)
    for family in FAMILIES:
        assert wrap(family, name)._delegated == {*OPTIMIZER_V2[name], "lr"}, family


@pytest.mark.parametrize("name", LEGACY)
def test_hyperparameters_that_the_class_of_the_family_has_are_delegated(family, name):
    inner = getattr(FAMILIES[family], name)()
    names = [n for n in OPTIMIZER_V2[name] if hasattr(inner, n)]
    assert_delegated(lambda: wrap(family, name), names)


@pytest.mark.parametrize(
    ("family", "name"),
    [
        pytest.param(family, name, marks=NO_LAMB if name == "Lamb" else ())
        for family, names in NEWER.items()
        for name in names
    ],
)
def test_numeric_arguments_of_newer_optimizers_are_delegated(family, name):
    optimizer = wrap(family, name)
    assert_delegated(lambda: wrap(family, name), NUMBERS[name])
    optimizer.lr = optimizer.weight_decay = OTHER
    inner = optimizer.inner_optimizer
    assert number(inner.learning_rate) == inner.weight_decay == OTHER
    with pytest.raises(AttributeError, match="epsilon"):
        _ = optimizer.epsilon


def test_a_users_legacy_optimizer_may_add_hyperparameters():
    class Subclass(keras2.optimizers.legacy.SGD):
        def __init__(self, sharpness=0.5):
            super().__init__()
            self._set_hyper("sharpness", sharpness)

    optimizer = tf_lso.LossScaleOptimizer(Subclass())
    assert float(optimizer.sharpness) == 0.5
    optimizer.sharpness = OTHER
    assert float(optimizer.inner_optimizer._get_hyper("sharpness")) == OTHER
    assert "sharpness" in dir(optimizer)


@pytest.mark.parametrize("family", ["keras3", "new"])
@pytest.mark.parametrize("base", ["SGD", "Optimizer"])
def test_numeric_arguments_of_a_users_newer_optimizer_are_delegated(family, base):
    class Subclass(getattr(FAMILIES[family], base)):
        def __init__(self, learning_rate=0.1, sharpness=0.5, is_sharp=True, label="x"):
            if (family, base) == ("new", "Optimizer"):
                super().__init__(name="mine")
                self._learning_rate = self._build_learning_rate(learning_rate)
            else:
                super().__init__(learning_rate)
            self.sharpness, self.is_sharp, self.label = sharpness, is_sharp, label

        def update_step(self, *arguments):
            """Do nothing."""

    optimizer = tf_lso.LossScaleOptimizer(Subclass())
    assert optimizer.sharpness == 0.5
    optimizer.sharpness = OTHER
    assert optimizer.inner_optimizer.sharpness == OTHER
    assert float(optimizer.lr) == pytest.approx(0.1)
    if base == "SGD":
        assert optimizer.momentum == 0.0
    for name in ("is_sharp", "label", "epsilon"):
        with pytest.raises(AttributeError, match=name):
            getattr(optimizer, name)


# --- Hyperparameters that are set after a step was traced. The gradient is 1.


def make_traced_step(family, x):
    """Return an optimizer, a traced step, and a list with an element for each trace."""
    optimizer, traces = wrap(family, "SGD", learning_rate=1.0, momentum=0.5), []

    @tf.function
    def step():
        traces.append(1)
        optimizer.minimize(lambda: x * 1.0, [x])

    return optimizer, step, traces


def test_a_new_momentum_reaches_the_traced_step_of_a_legacy_optimizer(warnings):
    x = tf.Variable(4.0)
    optimizer, step, traces = make_traced_step("legacy", x)
    step()
    before = len(traces)
    optimizer.momentum = 0.0
    step()
    assert float(x) == 2.0
    assert len(traces) == before
    assert not warnings("momentum")


@pytest.mark.parametrize("family", ["keras3", "new"])
def test_a_new_momentum_that_does_not_reach_the_traced_step_causes_one_warning(
    family, warnings
):
    x = tf.Variable(4.0)
    optimizer, step, _ = make_traced_step(family, x)
    optimizer.minimize(lambda: x * 1.0, [x])  # an eager step
    optimizer.momentum = 0.0
    assert not warnings("momentum")
    step()
    assert float(x) == 2.0
    optimizer.momentum = 0.25
    optimizer.momentum = 0.125
    (message,) = warnings("momentum")
    assert "traced" in message
    assert optimizer.inner_optimizer.momentum == 0.125


@needs_keras3
def test_each_attribute_that_is_set_after_a_traced_step_causes_its_own_warning(
    warnings,
):
    optimizer, step, _ = make_traced_step("keras3", tf.Variable(4.0))
    step()
    for name in ("momentum", "clipnorm"):
        setattr(optimizer, name, 0.25)
        assert len(warnings(name)) == 1


def test_a_schedule_that_replaces_a_number_after_a_traced_step_causes_a_warning(
    warnings,
):
    optimizer, step, _ = make_traced_step("legacy", tf.Variable(4.0))
    step()
    schedules = keras2.optimizers.schedules
    optimizer.learning_rate = schedules.ExponentialDecay(0.5, 1, 0.5)
    assert len(warnings("learning_rate")) == 1
