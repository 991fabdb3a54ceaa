"""Properties and methods of a wrapped optimizer, the same on every family.

What each version gave for the others is recorded: `tests/golden/test_sections.py`
compares it.
"""

import dataclasses
import inspect

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import (
    FAMILIES,
    HAS_KERAS3,
    KERASES,
    copies,
    keras,
    keras2,
    needs_keras3,
    raw,
    wrapped,
)
from tf_lso.keras.mixed_precision import experimental
from tf_lso.scaling.rule import ScaleRule

NAN = float("nan")
WRAPPERS = dict.fromkeys(FAMILIES, keras2.mixed_precision.LossScaleOptimizer)
if HAS_KERAS3:
    WRAPPERS["keras3"] = keras.optimizers.LossScaleOptimizer
BASES = {name: (FAMILIES[name].Optimizer, WRAPPERS[name]) for name in FAMILIES}
newer = pytest.mark.parametrize("family", ["keras3", "new"])


def fixed(family, scale=4.0):
    return tf_lso.LossScaleOptimizer(
        FAMILIES[family].SGD(0.1), dynamic=False, initial_scale=scale
    )


@pytest.fixture
def optimizer(family):
    return wrapped(family, momentum=0.9)


@pytest.fixture
def x():
    return tf.Variable(1.0, name="x")


def step(optimizer, x, gradient=2.0):
    optimizer.minimize(lambda: gradient * x, [x])


class TestTheClass:
    def test_is_an_instance_of_every_class_that_programs_look_for(self, family):
        optimizer = wrapped(family)
        for cls in (tf_lso.LossScaleOptimizer, *BASES[family]):
            assert isinstance(optimizer, cls)
        for other in set(BASES) - {family}:
            assert not isinstance(optimizer, BASES[other][0])

    def test_has_the_name_and_place_of_the_one_class(self, family, optimizer):
        cls = type(optimizer)
        assert cls.__name__ == cls.__qualname__ == "LossScaleOptimizer"
        assert cls.__module__ == tf_lso.LossScaleOptimizer.__module__
        assert cls is type(wrapped(family, "Adam"))

    def test_signature(self):
        assert str(inspect.signature(tf_lso.LossScaleOptimizer)) == (
            "(optimizer: Any, dynamic: bool = True, initial_scale: float | None = None, "
            "dynamic_growth_steps: int | None = None, *, name: str | None = None, "
            "growth_factor: float = 2.0, backoff_factor: float = 0.5, "
            "hysteresis: int = 1, min_scale: float = 1.0, "
            "max_scale: float | None = None)"
        )


# --- The scale.


@pytest.mark.parametrize("limits", [{}, {"min_scale": 0.5, "max_scale": 64.0}])
@pytest.mark.parametrize("number", [8, np.float64(8), tf.constant(8.0), "8"])
def test_properties_of_a_dynamic_scale(family, limits, number):
    optimizer = tf_lso.LossScaleOptimizer(
        FAMILIES[family].SGD(), initial_scale=number, dynamic_growth_steps=3.0, **limits
    )
    assert optimizer.dynamic is True
    assert type(optimizer.initial_scale) is float and optimizer.initial_scale == 8.0
    steps = optimizer.dynamic_growth_steps
    assert type(steps) is int and steps == 3
    assert isinstance(optimizer.dynamic_counter, tf.Variable)
    assert optimizer.dynamic_counter.dtype == tf.int64
    assert optimizer.dynamic_counter.shape == optimizer.loss_scale.shape == ()
    assert tf.is_tensor(optimizer.loss_scale)
    assert not isinstance(optimizer.loss_scale, tf.Variable)
    assert optimizer.loss_scale.dtype == tf.float32


@pytest.mark.parametrize("scale", [4.0, 0.25])
def test_properties_of_a_fixed_scale(family, x, scale):
    optimizer = fixed(family, scale)
    steps, counter = optimizer.dynamic_growth_steps, optimizer.dynamic_counter
    assert (optimizer.dynamic, steps, counter) == (False, None, None)
    assert optimizer.initial_scale == float(optimizer.loss_scale) == scale
    assert optimizer.loss_scale.dtype == tf.float32
    step(optimizer, x)
    assert float(x) == pytest.approx(0.8)
    weights = optimizer.get_weights()
    assert len(weights) == len(optimizer.weights)  # the inner optimizer's
    optimizer.set_weights(weights)


def test_a_changed_default_is_used_by_all(family, monkeypatch):
    """The walk on the architecture page: quarter the scale instead of halving it."""
    inner = FAMILIES[family].SGD
    configs = [
        tf_lso.LossScaleOptimizer(inner()).get_config(),
        experimental.LossScaleOptimizer(inner(), "dynamic").get_config(),
    ]
    defaults = [field.default for field in dataclasses.fields(ScaleRule)]
    quartering = tuple(0.25 if value == 0.5 else value for value in defaults)
    monkeypatch.setattr(ScaleRule.__init__, "__defaults__", quartering)
    monkeypatch.setattr(ScaleRule, "backoff_factor", 0.25)
    optimizers = [
        tf_lso.LossScaleOptimizer(inner(), initial_scale=8.0),
        experimental.LossScaleOptimizer(inner(), "dynamic"),
        experimental.LossScaleOptimizer(inner(), tf_lso.DynamicLossScale(8.0)),
        *map(tf_lso.LossScaleOptimizer.from_config, configs),
        *map(experimental.LossScaleOptimizer.from_config, configs),
    ]
    for optimizer in optimizers:
        before = float(optimizer.loss_scale)
        optimizer.apply_gradients([(tf.constant(NAN), tf.Variable(1.0))])
        assert float(optimizer.loss_scale) == before / 4, optimizer
        config = optimizer.get_config()
        assert "backoff_factor" not in {**config, **config.get("loss_scale", {})}
    kept = tf_lso.LossScaleOptimizer(inner(), backoff_factor=0.5).get_config()
    assert kept["backoff_factor"] == 0.5  # another than the default


@pytest.mark.parametrize(
    "arguments, shrunk",
    [
        ({"multiplier": 3}, 3.0),  # a multiplier of one's own divides too
        ({"multiplier": 3, "backoff_factor": 0.5}, 4.5),
        ({}, 4.5),
    ],
)
def test_what_a_multiplier_does_when_the_scale_shrinks(arguments, shrunk):
    scale = tf_lso.DynamicLossScale(9.0, **arguments)
    for one in (scale, tf_lso.DynamicLossScale.from_config(scale.get_config())):
        one.update([tf.constant(NAN)])
        assert float(one()) == shrunk


def test_a_growth_factor_leaves_the_back_off_as_it_is(family):
    inner = FAMILIES[family].SGD()
    optimizer = tf_lso.LossScaleOptimizer(inner, initial_scale=8, growth_factor=4)
    again = tf_lso.LossScaleOptimizer.from_config(optimizer.get_config())
    for one in (optimizer, again):
        one.apply_gradients([(tf.constant(NAN), tf.Variable(1.0))])
        assert float(one.loss_scale) == 4.0
        assert "backoff_factor" not in one.get_config()


# --- The text.


def test_the_text_shows_the_scale_the_count_and_the_inner_optimizer(family, x):
    optimizer = wrapped(family)
    step(optimizer, x)
    assert repr(optimizer) == (
        "<LossScaleOptimizer around SGD, loss_scale=8, dynamic_counter=1>"
    )
    assert repr(fixed(family)) == (
        "<LossScaleOptimizer around SGD, loss_scale=4, fixed>"
    )
    shown = []
    tf.function(lambda: shown.append(repr(optimizer)))()
    assert shown == ["<LossScaleOptimizer around SGD>"]
    assert "LossScaleOptimizer object" in repr(object.__new__(type(optimizer)))


def test_the_text_under_a_strategy(family, mirrored2):
    with mirrored2.scope():
        optimizer = wrapped(family)
        texts = [repr(optimizer)]
    mirrored2.run(lambda: texts.append(repr(optimizer)))
    assert len({*texts, repr(optimizer)}) == 1
    assert "dynamic_counter=0" in texts[0]


# --- The inner optimizer, and its attributes.


def test_the_inner_optimizer_by_both_names(family):
    inner = FAMILIES[family].SGD(clipnorm=1.5)
    optimizer = tf_lso.LossScaleOptimizer(inner)
    assert optimizer.inner_optimizer is inner
    assert optimizer._optimizer is inner
    assert inner.clipnorm == 1.5  # no default of the base class overwrites it


READ_ONLY = "dynamic dynamic_counter initial_scale dynamic_growth_steps inner_optimizer"


@pytest.mark.parametrize("name", READ_ONLY.split())
def test_properties_that_cannot_be_set(optimizer, name):
    before = getattr(optimizer, name)
    with pytest.raises(AttributeError):
        setattr(optimizer, name, 3)
    assert type(getattr(optimizer, name)) is type(before)


class TestTheLearningRate:
    def test_set_on_the_inner_optimizer_is_seen(self, optimizer):
        optimizer.inner_optimizer.learning_rate = 0.25
        assert float(optimizer.lr) == 0.25
        for dtype in (tf.float16, tf.float32, tf.float64):
            rate = tf.convert_to_tensor(optimizer._decayed_lr(dtype))
            assert (rate.dtype, float(rate)) == (dtype, 0.25)

    def test_decayed_lr_follows_a_schedule(self, family, x):
        schedule = KERASES[family].optimizers.schedules.PiecewiseConstantDecay(
            [0, 1], [0.5, 0.25, 0.125]
        )
        optimizer = wrapped(family, "SGD", schedule)
        seen = []
        for _ in range(3):
            seen.append(float(optimizer._decayed_lr(tf.float32)))
            step(optimizer, x)
        assert seen == [0.5, 0.25, 0.125]


@pytest.mark.parametrize("number", [7, np.array(7), tf.constant(7)])
def test_iterations_are_those_of_the_inner_optimizer_and_may_be_set(
    optimizer, x, number
):
    assert raw(optimizer.iterations).dtype == tf.int64
    assert raw(optimizer.iterations) is raw(optimizer.inner_optimizer.iterations)
    optimizer.iterations = number
    step(optimizer, x)
    assert int(copies(optimizer.iterations)[0]) == 8


@needs_keras3
def test_iterations_count_micro_steps_as_the_inner_optimizer_does(x):
    optimizer = wrapped("keras3", gradient_accumulation_steps=2)
    for _ in range(4):
        step(optimizer, x)
    assert int(optimizer.iterations) == int(optimizer.inner_optimizer.iterations)
    optimizer.iterations = 5
    assert int(optimizer.iterations) == 5


ATTRIBUTES = {"weight_decay": 0.25, "ema_momentum": 0.5, "ema_overwrite_frequency": 3}


@pytest.mark.parametrize(
    "family, name, value",
    [
        *[(f, *item) for f in ("keras3", "new") for item in ATTRIBUTES.items()],
        ("new", "jit_compile", False),
    ],
)
def test_attributes_of_the_inner_optimizer_are_read_and_set(family, name, value):
    assert getattr(wrapped(family, **{name: value}), name) == value
    optimizer = wrapped(family)
    setattr(optimizer, name, value)
    assert getattr(optimizer.inner_optimizer, name) == value
    assert getattr(optimizer, name) == value


@pytest.mark.parametrize(
    "name", ["no_such_thing", "epsilon", "nesterov", "_no_such_thing", "amsgrad"]
)
def test_an_unknown_attribute_names_the_class(optimizer, name):
    with pytest.raises(AttributeError, match=f"LossScaleOptimizer.*{name}"):
        getattr(optimizer, name)


def test_an_attribute_of_the_users_own_stays_on_the_wrapper(optimizer):
    optimizer.my_note = "kept"
    assert optimizer.my_note == "kept"
    assert not hasattr(optimizer.inner_optimizer, "my_note")


class TestTheName:
    @pytest.mark.parametrize("family", ["legacy", "new"])
    def test_is_the_inner_optimizers_in_tf_keras(self, family):
        inner = FAMILIES[family].SGD(name="mine")
        assert tf_lso.LossScaleOptimizer(inner).name == "mine"

    @needs_keras3
    def test_is_the_classs_in_keras3(self):
        inner = keras.optimizers.SGD(name="mine")
        theirs = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD())
        ours = tf_lso.LossScaleOptimizer(inner)
        assert ours.name.startswith("loss_scale_optimizer")
        assert theirs.name.startswith("loss_scale_optimizer")
        assert inner.name == "mine"

    def test_may_be_given_and_is_kept_by_the_config(self, family):
        optimizer = tf_lso.LossScaleOptimizer(FAMILIES[family].SGD(), name="scaled")
        assert optimizer.name == "scaled"
        assert optimizer.inner_optimizer.get_config()["name"] != "scaled"
        config = optimizer.get_config()
        assert config["name"] == type(optimizer).from_config(config).name == "scaled"


# --- State.


@needs_keras3
def test_variables_and_weights_of_keras3(x):
    optimizer = wrapped("keras3", "Adam")
    optimizer.build([tf.Variable(1.0), tf.Variable(1.0)])
    ids = {id(v) for v in optimizer.variables}
    assert {id(optimizer.step_counter), id(optimizer.dynamic_scale)} <= ids
    # Slot by slot, as in OptimizerV2.
    names = [v.path.split("_")[-1] for v in optimizer.weights[1:]]
    assert names == ["momentum", "momentum", "velocity", "velocity"]
    assert optimizer.weights[0] is optimizer.inner_optimizer.iterations
    assert float(optimizer.dynamic_scale) == 8.0
    assert optimizer.step_counter.value is optimizer.dynamic_counter
    assert fixed("keras3").dynamic_scale is None


class TestGetAndSetWeights:
    def test_go_round(self, family):
        first, second = wrapped(family, momentum=0.9), wrapped(family, momentum=0.9)
        x, y = tf.Variable(1.0), tf.Variable(1.0)
        for gradient in (2.0, NAN, 2.0):
            step(first, x, gradient)
        step(second, y, 1.0)
        y.assign(x)
        second.set_weights(first.get_weights())
        for name in ("loss_scale", "dynamic_counter", "iterations"):
            assert float(getattr(second, name)) == float(getattr(first, name))
        step(first, x)
        step(second, y)
        assert float(x) == float(y)
        for ours, theirs in zip(first.get_weights(), second.get_weights(), strict=True):
            np.testing.assert_array_equal(ours, theirs)

    def test_a_legacy_list_leaves_the_scale_as_it_is(self, optimizer, x):
        step(optimizer, x)
        optimizer.set_weights([w * 0 + 3 for w in optimizer.get_weights()[:-2]])
        assert float(optimizer.loss_scale) == 8.0
        assert int(optimizer.dynamic_counter) == 1
        assert int(copies(optimizer.iterations)[0]) == 3
        assert float(copies(optimizer.weights[-1])[0]) == 3.0

    def test_reach_a_function_that_is_already_traced(self, optimizer, x):
        optimizer.build([x])
        traced = tf.function(lambda: step(optimizer, x))
        traced()
        weights = optimizer.get_weights()
        optimizer.set_weights([*weights[:-2], 32.0, 4])
        traced()
        assert float(optimizer.loss_scale) == 32.0
        assert int(optimizer.dynamic_counter) == 5


# --- Methods.


def test_minimize_with_a_name(optimizer, x):
    optimizer.minimize(lambda: 2.0 * x, [x], name="step")
    assert float(x) == pytest.approx(0.8)
    optimizer.finalize_variable_values([x])  # without averages
    assert float(x) == pytest.approx(0.8)


def test_none_gradients_leave_their_variable_out(family, caplog):
    optimizer = wrapped(family)
    x, y = tf.Variable(1.0), tf.Variable(1.0, name="left_out")
    for _ in range(2):
        optimizer.apply_gradients([(tf.constant(2.0), x), (None, y)])
    assert (float(x), float(y)) == (pytest.approx(0.6), 1.0)
    assert caplog.text.count("left_out") == 1


def test_get_gradients(family, optimizer, x):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        y = tf.Variable(1.0)
        (gradient,) = wrapped("legacy").get_gradients(2.0 * y, [y])
        session.run(tf.compat.v1.global_variables_initializer())
        assert session.run(gradient) == 2.0
    y = tf.Variable(1.0, name="independent")
    with pytest.raises(ValueError, match="independent"):
        tf.function(lambda: optimizer.get_gradients(2.0 * x, [y]))()


class TestTheKeras3Api:
    def test_build_makes_the_variables_once(self, optimizer, x):
        optimizer.build([x])
        names = [getattr(v, "path", v.name) for v in optimizer.weights]
        optimizer.build([x])
        step(optimizer, x)
        assert [getattr(v, "path", v.name) for v in optimizer.weights] == names
        assert len(names) >= 2

    @pytest.mark.core
    @pytest.mark.parametrize("built", [True, False])
    def test_apply_takes_variables_or_those_of_build(self, optimizer, x, built):
        if built:
            optimizer.build([x])
        # Scaled by 8, as apply() takes it.
        optimizer.apply([tf.constant(16.0)], *([] if built else [[x]]))
        assert float(x) == pytest.approx(0.8)

    @newer
    def test_finalize_variable_values_with_averages(self, family, x):
        optimizer = wrapped(family, use_ema=True, ema_momentum=0.5)
        step(optimizer, x), step(optimizer, x)
        before = float(x)
        optimizer.finalize_variable_values([x])
        assert float(x) != before

    @pytest.mark.core
    @needs_keras3
    def test_an_inner_loss_scale_factor_does_not_scale_twice(self):
        optimizer = wrapped("keras3", loss_scale_factor=4.0)
        x = keras.Variable(1.0)
        optimizer.minimize(lambda: 2.0 * x.value, [x])
        assert float(raw(x)) == pytest.approx(0.8)


@newer
@pytest.mark.parametrize("by", ["var_list", "var_names"])
def test_what_is_excluded_from_weight_decay_does_not_decay(family, by):
    inner = FAMILIES[family].SGD(0.1, weight_decay=0.5)
    optimizer = tf_lso.LossScaleOptimizer(inner)
    x, y = tf.Variable(1.0, name="kernel"), tf.Variable(1.0, name="bias")
    excluded = {"var_list": [y], "var_names": ["bias"]}[by]
    optimizer.exclude_from_weight_decay(**{by: excluded})
    optimizer.minimize(lambda: 0.0 * x + 0.0 * y, [x, y])
    assert float(x) == pytest.approx(0.95)
    assert float(y) == 1.0
    assert not hasattr(wrapped("legacy"), "exclude_from_weight_decay")


@needs_keras3
def test_variables_and_updates_by_hand_are_those_of_the_inner_optimizer():
    optimizer = wrapped("keras3")
    x = keras.Variable(1.0, name="x")
    optimizer.build([x])
    for made in (
        optimizer.add_variable((), name="a"),
        optimizer.add_variable_from_reference(x, name="b"),
        *optimizer.add_optimizer_variables([x], "c"),
    ):
        assert any(made is v for v in optimizer.inner_optimizer.variables)
    optimizer.update_step(tf.constant(1.0), x, 0.5)
    assert float(x) == 0.5
    optimizer.assign_add(x, 1.0)
    assert float(x) == 1.5


def test_no_public_method_of_the_base_class_works_on_the_wrapper_alone(family):
    """What Keras adds is delegated or written here, or it is listed with a reason."""
    works_on_what_ours_returns = {"save_own_variables"}  # `variables`
    cls, inherited = type(wrapped(family)), set()
    for name in dir(BASES[family][0]):
        owner = next((c for c in cls.__mro__ if name in vars(c)), cls)
        if not name.startswith("_") and not owner.__module__.startswith("tf_lso"):
            inherited.add(name)
    assert inherited <= works_on_what_ours_returns
