"""Properties and methods of a wrapped optimizer, the same on every family.

What each version gave for the others is recorded: `tests/golden/test_sections.py`
compares it.
"""

import copy
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

WRAPPERS = dict.fromkeys(FAMILIES, keras2.mixed_precision.LossScaleOptimizer)
if HAS_KERAS3:
    WRAPPERS["keras3"] = keras.optimizers.LossScaleOptimizer
BASES = {name: (FAMILIES[name].Optimizer, WRAPPERS[name]) for name in FAMILIES}


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

    def test_is_no_instance_of_another_family(self, family):
        optimizer = wrapped(family)
        for other in set(BASES) - {family}:
            assert not isinstance(optimizer, BASES[other][0])

    def test_has_the_name_and_place_of_the_one_class(self, optimizer):
        assert type(optimizer).__name__ == "LossScaleOptimizer"
        assert type(optimizer).__qualname__ == "LossScaleOptimizer"
        assert type(optimizer).__module__ == tf_lso.LossScaleOptimizer.__module__
        assert "LossScaleOptimizer" in repr(optimizer)

    def test_is_the_same_class_for_all_optimizers_of_a_family(self, family):
        assert type(wrapped(family)) is type(wrapped(family, "Adam"))

    def test_signature(self):
        assert str(inspect.signature(tf_lso.LossScaleOptimizer)) == (
            "(optimizer: Any, dynamic: bool = True, initial_scale: float | None = None, "
            "dynamic_growth_steps: int | None = None, *, name: str | None = None, "
            "growth_factor: float = 2.0, backoff_factor: float = 0.5, "
            "hysteresis: int = 1, min_scale: float = 1.0, "
            "max_scale: float | None = None)"
        )


@pytest.mark.parametrize("limits", [{}, {"min_scale": 0.5, "max_scale": 64.0}])
def test_properties_of_a_dynamic_scale(family, limits):
    optimizer = tf_lso.LossScaleOptimizer(
        FAMILIES[family].SGD(), initial_scale=8, dynamic_growth_steps=3.0, **limits
    )
    assert optimizer.dynamic is True
    assert type(optimizer.initial_scale) is float and optimizer.initial_scale == 8.0
    assert type(optimizer.dynamic_growth_steps) is int
    assert optimizer.dynamic_growth_steps == 3
    assert isinstance(optimizer.dynamic_counter, tf.Variable)
    assert optimizer.dynamic_counter.dtype == tf.int64
    assert optimizer.dynamic_counter.shape == ()
    assert tf.is_tensor(optimizer.loss_scale)
    assert not isinstance(optimizer.loss_scale, tf.Variable)
    assert optimizer.loss_scale.dtype == tf.float32
    assert optimizer.loss_scale.shape == ()


def test_a_changed_default_is_used_by_all(family, monkeypatch):
    """The walk on the architecture page: quarter the scale instead of halving it."""
    inner = FAMILIES[family].SGD
    configs = [
        tf_lso.LossScaleOptimizer(inner()).get_config(),
        experimental.LossScaleOptimizer(inner(), "dynamic").get_config(),
    ]
    monkeypatch.setattr(ScaleRule.__init__, "__defaults__", quartering())
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
        optimizer.apply_gradients([(tf.constant(float("nan")), tf.Variable(1.0))])
        assert float(optimizer.loss_scale) == before / 4, optimizer
        config = optimizer.get_config()
        assert "backoff_factor" not in {**config, **config.get("loss_scale", {})}
    kept = tf_lso.LossScaleOptimizer(inner(), backoff_factor=0.5).get_config()
    assert kept["backoff_factor"] == 0.5  # another than the default


def quartering():
    """The defaults of `ScaleRule` where one line says 0.25 for 0.5."""
    values = [field.default for field in dataclasses.fields(ScaleRule)]
    return tuple(0.25 if value == 0.5 else value for value in values)


@pytest.mark.parametrize(
    ("made", "shrunk"),
    [
        (lambda: tf_lso.DynamicLossScale(9.0, multiplier=3), 3.0),
        (lambda: tf_lso.DynamicLossScale(9.0, multiplier=3, backoff_factor=0.5), 4.5),
        (lambda: tf_lso.DynamicLossScale(9.0), 4.5),
    ],
)
def test_a_multiplier_of_ones_own_divides_too(made, shrunk):
    scale = made()
    again = tf_lso.DynamicLossScale.from_config(scale.get_config())
    for one in (scale, again):
        one.update([tf.constant(float("nan"))])
        assert float(one()) == shrunk


def test_a_growth_factor_leaves_the_back_off_as_it_is(family):
    optimizer = tf_lso.LossScaleOptimizer(
        FAMILIES[family].SGD(), initial_scale=8, growth_factor=4
    )
    again = tf_lso.LossScaleOptimizer.from_config(optimizer.get_config())
    for one in (optimizer, again):
        one.apply_gradients([(tf.constant(float("nan")), tf.Variable(1.0))])
        assert float(one.loss_scale) == 4.0
        assert "backoff_factor" not in one.get_config()


def test_the_text_shows_the_scale_the_count_and_the_inner_optimizer(family, x):
    optimizer = wrapped(family)
    step(optimizer, x)
    assert repr(optimizer) == (
        "<LossScaleOptimizer around SGD, "
        f"loss_scale={float(optimizer.loss_scale):g}, dynamic_counter=1>"
    )
    assert repr(fixed(family)) == (
        "<LossScaleOptimizer around SGD, loss_scale=4, fixed>"
    )
    shown = []
    tf.function(lambda: shown.append(repr(optimizer)))()
    assert shown == ["<LossScaleOptimizer around SGD>"]


def test_the_text_under_a_strategy(family, mirrored2):
    with mirrored2.scope():
        optimizer = wrapped(family)
        texts = [repr(optimizer)]
    mirrored2.run(lambda: texts.append(repr(optimizer)))
    assert len({*texts, repr(optimizer)}) == 1
    assert "dynamic_counter=0" in texts[0]


def test_the_text_of_one_that_was_not_made():
    optimizer = object.__new__(type(wrapped("new")))
    assert "LossScaleOptimizer object" in repr(optimizer)


def test_properties_of_a_fixed_scale(family):
    optimizer = fixed(family)
    assert optimizer.dynamic is False
    assert optimizer.initial_scale == 4.0
    assert optimizer.dynamic_growth_steps is None
    assert optimizer.dynamic_counter is None
    assert optimizer.loss_scale.dtype == tf.float32
    assert float(optimizer.loss_scale) == 4.0


def test_a_fixed_scale_may_be_below_one(family, x):
    optimizer = fixed(family, 0.25)
    step(optimizer, x)
    assert float(x) == pytest.approx(0.8)


@pytest.mark.parametrize("kind", ["numpy", "tensor", "string"])
def test_the_initial_scale_may_be_any_number(family, kind):
    value = {"numpy": np.float64(4), "tensor": tf.constant(4.0), "string": "4"}[kind]
    optimizer = tf_lso.LossScaleOptimizer(
        FAMILIES[family].SGD(), initial_scale=value, dynamic_growth_steps=np.int64(5)
    )
    assert type(optimizer.initial_scale) is float and optimizer.initial_scale == 4.0
    assert type(optimizer.dynamic_growth_steps) is int


@pytest.mark.parametrize(
    "name",
    [
        "dynamic",
        "dynamic_counter",
        "initial_scale",
        "dynamic_growth_steps",
        "inner_optimizer",
    ],
)
def test_properties_that_cannot_be_set(optimizer, name):
    before = getattr(optimizer, name)
    with pytest.raises(AttributeError):
        setattr(optimizer, name, 3)
    assert type(getattr(optimizer, name)) is type(before)


def test_the_inner_optimizer_by_both_names(family):
    inner = FAMILIES[family].SGD()
    optimizer = tf_lso.LossScaleOptimizer(inner)
    assert optimizer.inner_optimizer is inner
    assert optimizer._optimizer is inner


class TestTheLearningRate:
    def test_set_on_the_inner_optimizer_is_seen(self, optimizer):
        optimizer.inner_optimizer.learning_rate = 0.25
        assert float(optimizer.lr) == 0.25

    @pytest.mark.parametrize("dtype", [tf.float16, tf.float32, tf.float64])
    def test_decayed_lr_is_a_tensor_of_the_dtype(self, optimizer, dtype):
        rate = tf.convert_to_tensor(optimizer._decayed_lr(dtype))
        assert rate.dtype == dtype
        assert float(rate) == pytest.approx(0.1, rel=1e-3)

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


class TestIterations:
    def test_are_the_ones_of_the_inner_optimizer(self, optimizer, x):
        assert raw(optimizer.iterations).dtype == tf.int64
        assert raw(optimizer.iterations) is raw(optimizer.inner_optimizer.iterations)
        step(optimizer, x)
        assert int(copies(optimizer.iterations)[0]) == 1

    @pytest.mark.parametrize("kind", ["number", "array", "tensor"])
    def test_may_be_set_to_a_number(self, family, x, kind):
        optimizer = wrapped(family)
        optimizer.iterations = {
            "number": 7,
            "array": np.array(7),
            "tensor": tf.constant(7),
        }[kind]
        step(optimizer, x)
        assert int(copies(optimizer.iterations)[0]) == 8

    @needs_keras3
    def test_count_micro_steps_as_the_inner_optimizer_does(self, x):
        optimizer = wrapped("keras3", gradient_accumulation_steps=2)
        for _ in range(4):
            step(optimizer, x)
        assert int(optimizer.iterations) == int(optimizer.inner_optimizer.iterations)
        optimizer.iterations = 5
        assert int(optimizer.iterations) == 5


SETTABLE = {
    "weight_decay": ("keras3 new", 0.25),
    "ema_momentum": ("keras3 new", 0.5),
    "ema_overwrite_frequency": ("keras3 new", 3),
    "jit_compile": ("new", False),
}


@pytest.mark.parametrize(
    ("family", "name"),
    [(f, name) for name, (families, _) in SETTABLE.items() for f in families.split()],
)
class TestAttributesOfTheInnerOptimizer:
    def test_are_read(self, family, name):
        optimizer = wrapped(family, **{name: SETTABLE[name][1]})
        assert getattr(optimizer, name) == SETTABLE[name][1]

    def test_are_set(self, family, name):
        optimizer = wrapped(family)
        setattr(optimizer, name, SETTABLE[name][1])
        assert getattr(optimizer.inner_optimizer, name) == SETTABLE[name][1]
        assert getattr(optimizer, name) == SETTABLE[name][1]


def test_a_base_class_default_does_not_overwrite_the_inner_optimizers(family):
    optimizer = wrapped(family, clipnorm=1.5)
    assert optimizer.inner_optimizer.clipnorm == 1.5
    assert float(optimizer.inner_optimizer.learning_rate) == pytest.approx(0.1)


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

    def test_may_be_given(self, family):
        optimizer = tf_lso.LossScaleOptimizer(FAMILIES[family].SGD(), name="scaled")
        assert optimizer.name == "scaled"
        assert optimizer.inner_optimizer.get_config()["name"] != "scaled"
        assert optimizer.get_config()["name"] == "scaled"

    def test_is_kept_by_the_config(self, family):
        optimizer = tf_lso.LossScaleOptimizer(FAMILIES[family].SGD(), name="scaled")
        again = type(optimizer).from_config(optimizer.get_config())
        assert again.name == "scaled"


class TestVariables:
    @needs_keras3
    def test_of_keras3_hold_the_scale_and_the_count(self, x):
        optimizer = wrapped("keras3")
        ids = {id(v) for v in optimizer.variables}
        assert id(optimizer.step_counter) in ids
        assert id(optimizer.dynamic_scale) in ids

    @needs_keras3
    def test_weights_of_keras3_are_slot_by_slot_as_in_optimizer_v2(self):
        optimizer = wrapped("keras3", "Adam")
        optimizer.build([tf.Variable(1.0), tf.Variable(1.0)])
        names = [v.path.split("_")[-1] for v in optimizer.weights[1:]]
        assert names == ["momentum", "momentum", "velocity", "velocity"]
        assert optimizer.weights[0] is optimizer.inner_optimizer.iterations


class TestGetAndSetWeights:
    def test_go_round(self, family):
        first, second = wrapped(family, momentum=0.9), wrapped(family, momentum=0.9)
        x, y = tf.Variable(1.0), tf.Variable(1.0)
        for gradient in (2.0, float("nan"), 2.0):
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

    def test_of_a_fixed_scale_are_the_inner_optimizers(self, family, x):
        optimizer = fixed(family)
        step(optimizer, x)
        weights = optimizer.get_weights()
        assert len(weights) == len(optimizer.weights)
        optimizer.set_weights(weights)

    def test_reach_a_function_that_is_already_traced(self, optimizer, x):
        traced = tf.function(lambda: step(optimizer, x))
        traced()
        weights = optimizer.get_weights()
        optimizer.set_weights([*weights[:-2], 32.0, 4])
        traced()
        assert float(optimizer.loss_scale) == 32.0
        assert int(optimizer.dynamic_counter) == 5


class TestConfig:
    def test_is_without_state(self, optimizer, x):
        step(optimizer, x, float("nan"))
        again = type(optimizer).from_config(optimizer.get_config())
        assert float(again.loss_scale) == 8.0

    def test_of_the_stable_class_has_its_keys(self, family):
        config = fixed(family).get_config()
        assert config["dynamic"] is False
        assert config["initial_scale"] == 4.0
        assert config["dynamic_growth_steps"] is None
        assert isinstance(config["inner_optimizer"], dict)

    def test_may_hold_an_optimizer_instead_of_its_config(self, family):
        inner = FAMILIES[family].SGD()
        optimizer = tf_lso.LossScaleOptimizer.from_config(
            {"inner_optimizer": inner, "initial_scale": 2.0}
        )
        assert optimizer.inner_optimizer is inner

    @needs_keras3
    def test_is_read_by_keras(self):
        config = wrapped("keras3", growth=7).get_config()
        theirs = keras.optimizers.LossScaleOptimizer.from_config(config)
        assert theirs.initial_scale == 8.0
        assert theirs.dynamic_growth_steps == 7

    @pytest.mark.parametrize("family", ["legacy", "new"])
    @pytest.mark.parametrize("dynamic", [True, False])
    def test_of_tf_keras_is_read_and_read_by_it(self, family, dynamic):
        theirs = keras2.mixed_precision.LossScaleOptimizer(
            FAMILIES[family].SGD(0.25), dynamic=dynamic, initial_scale=4.0
        )
        config = theirs.get_config()
        before = copy.deepcopy(config)
        ours = tf_lso.LossScaleOptimizer.from_config(config)
        assert config == before
        assert isinstance(ours, BASES[family][0])
        assert ours.dynamic is dynamic
        assert ours.initial_scale == 4.0
        assert set(ours.get_config()) == set(config)
        again = type(theirs).from_config(ours.get_config())
        assert again.initial_scale == 4.0


class TestMinimize:
    def test_with_a_name(self, optimizer, x):
        optimizer.minimize(lambda: 2.0 * x, [x], name="step")
        assert float(x) == pytest.approx(0.8)

    @needs_keras3
    def test_of_keras_variables(self):
        optimizer = wrapped("keras3")
        x = keras.Variable(1.0)
        optimizer.minimize(lambda: 2.0 * x.value, [x])
        assert float(x) == pytest.approx(0.8)

    def test_none_gradients_leave_their_variable_out(self, family, caplog):
        optimizer = wrapped(family)
        x, y = tf.Variable(1.0), tf.Variable(1.0, name="left_out")
        for _ in range(2):
            optimizer.apply_gradients([(tf.constant(2.0), x), (None, y)])
        assert (float(x), float(y)) == (pytest.approx(0.6), 1.0)
        assert caplog.text.count("left_out") == 1


@pytest.mark.parametrize("family", ["legacy"])
def test_get_gradients_and_get_updates_of_a_graph(family):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.Variable(1.0)
        optimizer = wrapped(family)
        (gradient,) = optimizer.get_gradients(2.0 * x, [x])
        session.run(tf.compat.v1.global_variables_initializer())
        assert session.run(gradient) == 2.0


def test_get_gradients_of_an_independent_variable(optimizer, x):
    y = tf.Variable(1.0, name="independent")

    @tf.function
    def gradients():
        return optimizer.get_gradients(2.0 * x, [y])

    with pytest.raises(ValueError, match="independent"):
        gradients()


class TestTheKeras3Api:
    def test_build_makes_the_variables_once(self, optimizer, x):
        optimizer.build([x])
        names = [getattr(v, "path", v.name) for v in optimizer.weights]
        optimizer.build([x])
        step(optimizer, x)
        assert [getattr(v, "path", v.name) for v in optimizer.weights] == names
        assert len(names) >= 2

    def test_apply_uses_the_variables_of_build(self, optimizer, x):
        optimizer.build([x])
        optimizer.apply([tf.constant(16.0)])  # scaled by 8, as apply() takes it
        assert float(x) == pytest.approx(0.8)

    @pytest.mark.core
    def test_apply_with_variables(self, optimizer, x):
        optimizer.apply([tf.constant(16.0)], [x])
        assert float(x) == pytest.approx(0.8)

    def test_scale_loss_takes_numbers(self, optimizer):
        assert float(optimizer.scale_loss(1.5)) == 12.0

    def test_scale_loss_scales_a_float16_loss_in_float32(self, optimizer):
        scaled = optimizer.scale_loss(tf.constant(60_000, tf.float16))
        assert scaled.dtype == tf.float32 and float(scaled) == 480_000

    def test_finalize_variable_values_without_averages(self, optimizer, x):
        step(optimizer, x)
        optimizer.finalize_variable_values([x])
        assert float(x) == pytest.approx(0.8)

    @pytest.mark.parametrize("family", ["keras3", "new"])
    def test_finalize_variable_values_with_averages(self, family, x):
        optimizer = wrapped(family, use_ema=True, ema_momentum=0.5)
        step(optimizer, x)
        step(optimizer, x)
        before = float(x)
        optimizer.finalize_variable_values([x])
        assert float(x) != before

    @needs_keras3
    def test_names_of_keras3_for_the_state(self, x):
        optimizer = wrapped("keras3")
        step(optimizer, x)
        assert float(optimizer.dynamic_scale) == 8.0
        assert optimizer.step_counter.value is optimizer.dynamic_counter
        assert int(optimizer.step_counter) == 1
        assert fixed("keras3").dynamic_scale is None

    @pytest.mark.core
    @needs_keras3
    def test_an_inner_loss_scale_factor_does_not_scale_twice(self, x):
        optimizer = wrapped("keras3", loss_scale_factor=4.0)
        step(optimizer, x)
        assert float(x) == pytest.approx(0.8)


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


# --- Methods of the inner optimizer.


@pytest.mark.parametrize("family", ["keras3", "new"])
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


def test_the_legacy_optimizer_has_no_weight_decay_to_exclude_from():
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
    optimizer = wrapped(family)
    inherited = set()
    for name in dir(BASES[family][0]):
        owner = next(
            (c for c in type(optimizer).__mro__ if name in vars(c)), type(optimizer)
        )
        if not name.startswith("_") and not owner.__module__.startswith("tf_lso"):
            inherited.add(name)
    assert inherited <= works_on_what_ours_returns
