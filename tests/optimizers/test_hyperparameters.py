"""Which hyperparameters a wrapper answers for, both ways, and what they then do."""

import inspect
import logging
import numbers

import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, keras, keras2, number
from tests.generation import NO_LAMB
from tf_lso.frameworks import optimizer_table as table

OPTIMIZER_V2 = {
    name: facts.hyperparameters
    for name, facts in table.OPTIMIZERS.items()
    if facts.hyperparameters
}
LEGACY = list(OPTIMIZER_V2)
NEWER = {"keras3": ("AdamW", "Lion", "Lamb", "Adafactor"), "new": ("AdamW",)}
if hasattr(keras2.optimizers, "Lion"):  # not in 2.12
    NEWER["new"] += ("Lion",)

# A value that no optimizer has by default.
OTHER = 0.375


def wrap(family, name, **arguments):
    return tf_lso.LossScaleOptimizer(getattr(FAMILIES[family], name)(**arguments))


def assert_reach_the_inner_optimizer(make, names):
    """Check that the attributes of optimizers that it makes are read and set there."""
    assert names
    for name in names:
        one, other = make(), make()
        assert name in dir(one)
        setattr(one.inner_optimizer, name, OTHER)
        setattr(other, name, OTHER)
        assert number(getattr(one, name)) == OTHER, name
        assert number(getattr(other.inner_optimizer, name)) == OTHER, name
        assert name not in vars(other)


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING, logger="tensorflow")
    return lambda name: [m for m in caplog.messages if f"'{name}' was set" in m]


def test_the_table_has_every_legacy_optimizer():
    classes = inspect.getmembers(keras2.optimizers.legacy, inspect.isclass)
    assert {name for name, _ in classes} - {"Optimizer"} == set(OPTIMIZER_V2)


@pytest.mark.parametrize("name", LEGACY)
def test_the_table_gives_the_same_names_for_every_family(name):
    inner = getattr(keras2.optimizers.legacy, name)()
    assert set(OPTIMIZER_V2[name]) == set(inner._hyper)
    for family in FAMILIES:
        assert wrap(family, name)._delegated == {*OPTIMIZER_V2[name], "lr"}, family


@pytest.mark.parametrize("name", LEGACY)
def test_what_the_family_s_class_really_has_is_read_and_set(family, name):
    inner = getattr(FAMILIES[family], name)()
    names = [n for n in OPTIMIZER_V2[name] if hasattr(inner, n)]
    assert_reach_the_inner_optimizer(lambda: wrap(family, name), names)


def numeric_arguments(optimizer):
    """The numbers of the constructor, as its signature and config tell."""
    config = optimizer.get_config()
    own = inspect.signature(type(optimizer).__init__).parameters
    base = inspect.signature(keras.optimizers.Optimizer.__init__).parameters
    names = own.keys() - base.keys() - {"self", "epsilon", "jit_compile", "kwargs"}
    numeric = {n for n in names if isinstance(config.get(n), numbers.Real)}
    return {name for name in numeric if not isinstance(config[name], bool)}


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
    names = numeric_arguments(optimizer.inner_optimizer) - {"learning_rate"}
    assert_reach_the_inner_optimizer(lambda: wrap(family, name), names)
    optimizer.lr = optimizer.weight_decay = OTHER
    inner = optimizer.inner_optimizer
    assert number(inner.learning_rate) == inner.weight_decay == OTHER
    with pytest.raises(AttributeError, match="epsilon"):
        _ = optimizer.epsilon
    if name == "AdamW":  # as Adam's
        assert {"beta_1", "beta_2", "lr", "learning_rate"} <= set(dir(optimizer))


def test_subclasses_of_a_users_own_answer_as_their_base(family):
    class Mine(FAMILIES[family].Adam):
        pass

    optimizer = tf_lso.LossScaleOptimizer(Mine())
    optimizer.beta_1 = OTHER
    assert float(optimizer.inner_optimizer.beta_1) == OTHER
    with pytest.raises(AttributeError, match="epsilon"):
        _ = optimizer.epsilon


def test_subclasses_of_a_legacy_optimizer_bring_hyperparameters_of_their_own():
    class Mine(keras2.optimizers.legacy.SGD):
        def __init__(self, sharpness=0.5):
            super().__init__()
            self._set_hyper("sharpness", sharpness)

    optimizer = tf_lso.LossScaleOptimizer(Mine())
    assert float(optimizer.sharpness) == 0.5
    optimizer.sharpness = OTHER
    assert float(optimizer.inner_optimizer._get_hyper("sharpness")) == OTHER
    assert "sharpness" in dir(optimizer)


@pytest.mark.parametrize("family", ["keras3", "new"])
@pytest.mark.parametrize("base", ["SGD", "Optimizer"])
def test_subclasses_of_a_newer_optimizer_bring_numeric_arguments(family, base):
    class Mine(getattr(FAMILIES[family], base)):
        def __init__(self, learning_rate=0.1, sharpness=0.5, label="x"):
            if (family, base) == ("new", "Optimizer"):
                super().__init__(name="mine")
                self._learning_rate = self._build_learning_rate(learning_rate)
            else:
                super().__init__(learning_rate)
            self.sharpness, self.label = sharpness, label

        def update_step(self, *arguments):
            """Nothing."""

    optimizer = tf_lso.LossScaleOptimizer(Mine())
    assert optimizer.sharpness == 0.5
    optimizer.sharpness = OTHER
    assert optimizer.inner_optimizer.sharpness == OTHER
    assert float(optimizer.lr) == pytest.approx(0.1)
    with pytest.raises(AttributeError, match="label"):
        _ = optimizer.label


# --- After a step was traced.


def traced(family, x):
    """An optimizer, its traced step, and a list with an element for each trace."""
    optimizer, traces = wrap(family, "SGD", learning_rate=1.0, momentum=0.5), []

    @tf.function
    def step():
        traces.append(1)
        optimizer.minimize(lambda: x * 1.0, [x])

    return optimizer, step, traces


def test_a_new_momentum_reaches_the_legacy_step_without_a_warning(warnings):
    x = tf.Variable(4.0)
    optimizer, step, traces = traced("legacy", x)
    step()
    before = len(traces)
    optimizer.momentum = 0.0
    step()
    assert float(x) == 2.0
    assert len(traces) == before
    assert not warnings("momentum")


@pytest.mark.parametrize("family", ["keras3", "new"])
def test_a_new_momentum_that_does_not_reach_the_step_warns(family, warnings):
    x = tf.Variable(4.0)
    optimizer, step, _ = traced(family, x)
    optimizer.minimize(lambda: x * 1.0, [x])  # an eager step is no traced one
    optimizer.momentum = 0.0
    assert not warnings("momentum")
    step()
    assert float(x) == 2.0
    for momentum in (0.25, 0.125):
        optimizer.momentum = momentum
    (message,) = warnings("momentum")
    assert "traced" in message
    assert optimizer.inner_optimizer.momentum == 0.125
    if family == "keras3":
        for name in ("clipnorm", "clipvalue", "weight_decay"):
            setattr(optimizer, name, 0.5)
            assert len(warnings(name)) == 1


def test_a_schedule_in_place_of_a_number_warns(warnings):
    optimizer, step, _ = traced("legacy", tf.Variable(4.0))
    step()
    schedules = keras2.optimizers.schedules
    optimizer.learning_rate = schedules.ExponentialDecay(0.5, 1, 0.5)
    assert len(warnings("learning_rate")) == 1
