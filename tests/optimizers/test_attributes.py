"""Properties and methods of a wrapped optimizer, the same on every family.

What each version gave for the others is recorded: `tests/golden/test_sections.py`
compares it.
"""

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
    number,
    raw,
    wrapped,
)
from tf_lso.scaling import options
from tf_lso.scaling.rule import ScaleRule

NAN = float("nan")
WRAPPERS = dict.fromkeys(FAMILIES, keras2.mixed_precision.LossScaleOptimizer)
if HAS_KERAS3:
    WRAPPERS["keras3"] = keras.optimizers.LossScaleOptimizer
BASES = {name: (FAMILIES[name].Optimizer, WRAPPERS[name]) for name in FAMILIES}
newer = pytest.mark.parametrize("family", ["keras3", "new"])


def fixed(family):
    return tf_lso.LossScaleOptimizer(FAMILIES[family].SGD(0.1), False, 4.0)


@pytest.fixture
def optimizer(family):
    return wrapped(family, momentum=0.9)


@pytest.fixture
def x():
    return tf.Variable(1.0, name="x")


def step(optimizer, x):
    optimizer.minimize(lambda: 2.0 * x, [x])


def test_is_an_instance_of_every_class_that_programs_look_for(family):
    optimizer = wrapped(family)
    for cls in (tf_lso.LossScaleOptimizer, *BASES[family]):
        assert isinstance(optimizer, cls)
    for other in set(BASES) - {family}:
        assert not isinstance(optimizer, BASES[other][0])


def test_the_class_has_the_name_and_place_of_the_one_class(family, optimizer):
    cls = type(optimizer)
    assert cls.__name__ == cls.__qualname__ == "LossScaleOptimizer"
    assert cls.__module__ == tf_lso.LossScaleOptimizer.__module__
    assert cls is type(wrapped(family, "Adam"))


@pytest.mark.core
def test_the_signature():
    assert str(inspect.signature(tf_lso.LossScaleOptimizer)) == (
        "(optimizer: Any, dynamic: bool = True, initial_scale: float | None = None, "
        "dynamic_growth_steps: int | None = None, *, name: str | None = None, "
        "growth_factor: float = 2.0, backoff_factor: float = 0.5, hysteresis: int = 1, "
        "min_scale: float = 1.0, max_scale: float | None = None)"
    )
    shown = inspect.signature(tf_lso.LossScaleOptimizer).parameters
    taken = inspect.signature(tf_lso.LossScaleOptimizer.__init__).parameters
    for name in shown.keys() - {"optimizer"}:
        assert taken[name].default == shown[name].default


# --- The scale; its properties are recorded in tests/golden.


def test_the_types_of_its_properties(family):
    optimizer, fixed_ = wrapped(family, growth=3.0), fixed(family)
    assert type(optimizer.initial_scale) is type(fixed_.initial_scale) is float
    assert type(optimizer.dynamic_growth_steps) is int
    counter = optimizer.dynamic_counter
    assert isinstance(counter, tf.Variable) and counter.dtype == tf.int64
    for scale in (optimizer.loss_scale, fixed_.loss_scale):
        assert tf.is_tensor(scale) and not isinstance(scale, tf.Variable)
        assert (scale.dtype, scale.shape) == (tf.float32, ())
    weights = fixed_.get_weights()
    assert len(weights) == len(fixed_.weights)  # the inner optimizer's
    fixed_.set_weights(weights)


def test_the_defaults_of_the_constructors_are_those_of_the_rule():
    of = inspect.signature(tf_lso.LossScaleOptimizer).parameters
    for name in ("growth_factor", "backoff_factor", "hysteresis", "min_scale"):
        assert of[name].default == getattr(ScaleRule, name)
    of = inspect.signature(tf_lso.DynamicLossScale).parameters
    named = options.OF_DYNAMIC_LOSS_SCALE
    for field in ("initial_scale", "growth_steps", "growth_factor", "hysteresis"):
        assert of[named[field]].default == getattr(ScaleRule, field)


def test_a_multiplier_divides_too_unless_there_is_a_back_off():
    for arguments, shrunk in (
        ({"multiplier": 3}, 3.0),
        ({"multiplier": 3, "backoff_factor": 0.5}, 4.5),
        ({}, 4.5),
    ):
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
    around = "<LossScaleOptimizer around SGD"
    assert repr(optimizer) == f"{around}, loss_scale=8, dynamic_counter=1>"
    assert repr(fixed(family)) == f"{around}, loss_scale=4, fixed>"
    shown = []
    tf.function(lambda: shown.append(repr(optimizer)))()
    assert shown == [f"{around}>"]
    assert "LossScaleOptimizer object" in repr(object.__new__(type(optimizer)))


def test_the_text_under_a_strategy(family, mirrored2):
    with mirrored2.scope():
        optimizer = wrapped(family)
        texts = [repr(optimizer)]
    mirrored2.run(lambda: texts.append(repr(optimizer)))
    assert len({*texts, repr(optimizer)}) == 1
    assert "dynamic_counter=0" in texts[0]


# --- The inner optimizer, and its attributes.


def test_the_learning_rate_of_the_inner_optimizer(family, optimizer, x):
    optimizer.inner_optimizer.learning_rate = 0.25
    assert float(optimizer.lr) == 0.25
    for dtype in (tf.float16, tf.float32, tf.float64):
        rate = tf.convert_to_tensor(optimizer._decayed_lr(dtype))
        assert (rate.dtype, float(rate)) == (dtype, 0.25)
    schedules = KERASES[family].optimizers.schedules
    schedule = schedules.PiecewiseConstantDecay([0, 1], [0.5, 0.25, 0.125])
    optimizer, seen = wrapped(family, "SGD", schedule), []
    for _ in range(3):
        seen.append(float(optimizer._decayed_lr(tf.float32)))
        step(optimizer, x)
    assert seen == [0.5, 0.25, 0.125]


@pytest.mark.core
@pytest.mark.parametrize("number", [7, np.array(7), tf.constant(7)])
def test_iterations_are_those_of_the_inner_optimizer_and_may_be_set(
    optimizer, x, number
):
    assert raw(optimizer.iterations).dtype == tf.int64
    assert raw(optimizer.iterations) is raw(optimizer.inner_optimizer.iterations)
    optimizer.iterations = number
    step(optimizer, x)
    assert int(copies(optimizer.iterations)[0]) == 8


@pytest.mark.core
@needs_keras3
def test_iterations_count_micro_steps_as_the_inner_optimizer_does(x):
    optimizer = wrapped("keras3", gradient_accumulation_steps=2)
    for _ in range(4):
        step(optimizer, x)
    assert number(optimizer.iterations) == number(optimizer.inner_optimizer.iterations)
    optimizer.iterations = 5
    assert number(optimizer.iterations) == 5


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


def test_an_unknown_attribute_names_the_class(optimizer):
    with pytest.raises(AttributeError, match=r"LossScaleOptimizer.*no_such_thing"):
        _ = optimizer.no_such_thing


def test_the_name_is_the_inner_optimizers_in_keras2_and_the_classs_in_keras3(family):
    inner = FAMILIES[family].SGD(name="mine")
    name = tf_lso.LossScaleOptimizer(inner).name
    assert name.startswith("loss_scale_optimizer" if family == "keras3" else "mine")
    assert inner.get_config()["name"] == "mine"


def test_the_name_may_be_given_and_is_kept_by_the_config(family):
    optimizer = tf_lso.LossScaleOptimizer(FAMILIES[family].SGD(), name="scaled")
    config = optimizer.get_config()
    assert optimizer.name == config["name"] == "scaled"
    assert type(optimizer).from_config(config).name == "scaled"
    assert optimizer.inner_optimizer.get_config()["name"] != "scaled"


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
    assert number(optimizer.dynamic_scale) == 8.0
    assert optimizer.step_counter.value is optimizer.dynamic_counter
    assert fixed("keras3").dynamic_scale is None


def test_a_legacy_list_of_weights_leaves_the_scale_as_it_is(optimizer, x):
    step(optimizer, x)
    optimizer.set_weights([w * 0 + 3 for w in optimizer.get_weights()[:-2]])
    assert float(optimizer.loss_scale) == 8.0
    assert int(optimizer.dynamic_counter) == 1
    assert int(copies(optimizer.iterations)[0]) == 3
    assert float(copies(optimizer.weights[-1])[0]) == 3.0


def test_weights_that_are_set_reach_a_function_that_is_already_traced(optimizer, x):
    optimizer.build([x])
    traced = tf.function(lambda: step(optimizer, x))
    traced()
    optimizer.set_weights([*optimizer.get_weights()[:-2], 32.0, 4])
    traced()
    assert float(optimizer.loss_scale) == 32.0
    assert int(optimizer.dynamic_counter) == 5


# --- Methods.


def test_averages_are_finalized_where_there_are_some(family, x):
    averages = {"use_ema": True, "ema_momentum": 0.5} if family != "legacy" else {}
    optimizer = wrapped(family, **averages)
    for name in ("step", None):
        optimizer.minimize(lambda: 2.0 * x, [x], name=name)
    assert float(x) == pytest.approx(0.6)
    optimizer.finalize_variable_values([x])
    assert (float(x) != pytest.approx(0.6)) == bool(averages)


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


@newer
def test_aggregate_gradients_sums_over_replicas(family, mirrored2):
    with mirrored2.scope():
        x, optimizer = tf.Variable(1.0), wrapped(family)

    def summed():
        pairs = optimizer.aggregate_gradients([(tf.constant(2.0), x), (None, x)])
        assert pairs[1][0] is None
        return pairs[0][0]

    results = mirrored2.run(tf.function(summed))
    assert [float(v) for v in results.values] == [4.0, 4.0]


def test_build_makes_the_variables_once(optimizer, x):
    def names():
        return [getattr(v, "path", v.name) for v in optimizer.weights]

    optimizer.build([x])
    built = names()
    optimizer.build([x])
    step(optimizer, x)
    assert names() == built and len(built) >= 2


@pytest.mark.core
@pytest.mark.parametrize("built", [True, False])
def test_apply_takes_variables_or_those_of_build(optimizer, x, built):
    if built:
        optimizer.build([x])
    # Scaled by 8, as apply() takes it.
    optimizer.apply([tf.constant(16.0)], *([] if built else [[x]]))
    assert float(x) == pytest.approx(0.8)


@pytest.mark.core
@needs_keras3
def test_an_inner_loss_scale_factor_does_not_scale_twice():
    optimizer, x = wrapped("keras3", loss_scale_factor=4.0), keras.Variable(1.0)
    optimizer.minimize(lambda: 2.0 * x.value, [x])
    assert float(raw(x)) == pytest.approx(0.8)


@newer
@pytest.mark.parametrize("by", ["var_list", "var_names"])
def test_what_is_excluded_from_weight_decay_does_not_decay(family, by):
    optimizer = wrapped(family, weight_decay=0.5)
    x, y = tf.Variable(1.0, name="kernel"), tf.Variable(1.0, name="bias")
    excluded = {"var_list": [y], "var_names": ["bias"]}
    optimizer.exclude_from_weight_decay(**{by: excluded[by]})
    optimizer.minimize(lambda: 0.0 * x + 0.0 * y, [x, y])
    assert float(x) == pytest.approx(0.95)
    assert float(y) == 1.0
    assert not hasattr(wrapped("legacy"), "exclude_from_weight_decay")


@needs_keras3
def test_variables_and_updates_by_hand_are_those_of_the_inner_optimizer():
    optimizer, x = wrapped("keras3"), keras.Variable(1.0)
    optimizer.build([x])
    made_by_hand = [
        optimizer.add_variable((), name="a"),
        optimizer.add_variable_from_reference(x, name="b"),
    ]
    if hasattr(keras.optimizers.SGD, "add_optimizer_variables"):
        made_by_hand += optimizer.add_optimizer_variables([x], "c")
    for made in made_by_hand:
        assert any(made is v for v in optimizer.inner_optimizer.variables)
    optimizer.update_step(tf.constant(1.0), x, 0.5)
    optimizer.assign_add(x, 2.0)
    assert number(x) == 2.5


def test_no_public_method_of_the_base_class_works_on_the_wrapper_alone(family):
    """What Keras adds is delegated or written here, or it is listed with a reason."""
    cls, inherited = type(wrapped(family)), set()
    for name in dir(BASES[family][0]):
        owner = next((c for c in cls.__mro__ if name in vars(c)), cls)
        if not name.startswith("_") and not owner.__module__.startswith("tf_lso"):
            inherited.add(name)
    assert inherited <= {"save_own_variables"}  # works on `variables`, which are ours


# The forms in which `minimize` accepts two variables.
VARIABLES = {
    "list": lambda x, y: [x, y],
    "nested list": lambda x, y: [[x], [y]],
    "function": lambda x, y: lambda: [x, y],
}


@pytest.mark.parametrize("form", VARIABLES)
def test_minimize_accepts_variables_as_a_list_or_a_function(form, family):
    optimizer = wrapped(family, "SGD", 0.5, scale=4.0)
    x, y = tf.Variable(1.0), tf.Variable(2.0)
    optimizer.minimize(lambda: x + 2.0 * y, VARIABLES[form](x, y))
    assert (x.numpy(), y.numpy()) == (0.5, 1.0)
