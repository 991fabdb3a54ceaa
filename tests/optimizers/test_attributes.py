"""Properties and methods of a LossScaleOptimizer.

`tests/golden/test_attributes.py` compares more of them with recorded versions.
"""

import inspect

import pytest
import tensorflow as tf

import tf_lso
from tests.families import (
    CURRENT,
    FAMILIES,
    KERASES,
    copies,
    keras,
    needs_keras3,
    number,
    raw,
    wrapped,
)

newer_families = pytest.mark.parametrize("family", ["keras3", "new"])


@pytest.fixture
def optimizer(family):
    return wrapped(family, momentum=0.9)


@pytest.fixture
def x():
    return tf.Variable(1.0, name="x")


def step(optimizer, x):
    optimizer.minimize(lambda: 2.0 * x, [x])


def test_is_an_instance_of_the_classes_of_its_own_keras(family):
    optimizer = wrapped(family)
    assert isinstance(optimizer, tf_lso.LossScaleOptimizer)
    assert isinstance(optimizer, KERASES[family].mixed_precision.LossScaleOptimizer)
    for name, optimizers in FAMILIES.items():
        assert isinstance(optimizer, optimizers.Optimizer) == (name == family)


def test_the_class_of_an_instance_has_the_public_name_and_module(family, optimizer):
    cls = type(optimizer)
    assert cls.__name__ == cls.__qualname__ == "LossScaleOptimizer"
    assert cls.__module__ == tf_lso.LossScaleOptimizer.__module__
    assert cls is type(wrapped(family, "Adam"))


@pytest.mark.core
def test_the_signature():
    assert str(inspect.signature(tf_lso.LossScaleOptimizer)) == (
        "(optimizer: Any = MISSING, dynamic: bool = True, "
        "initial_scale: float | None = None, dynamic_growth_steps: int | None = None, "
        "*, inner_optimizer: Any = MISSING, name: str | None = None, "
        "growth_factor: float = 2.0, backoff_factor: float = 0.5, "
        "min_scale: float = 1.0, max_scale: float | None = None, "
        "**keywords: 'Unpack[table.Keras3Arguments]') -> None"
    )


# --- The scale. `tests/golden` compares the values of these properties.


@pytest.mark.parametrize("dynamic", [True, False])
def test_the_loss_scale_is_a_float32_tensor_and_not_a_variable(dynamic):
    inner = FAMILIES[CURRENT].SGD(0.1)
    scale = tf_lso.LossScaleOptimizer(inner, dynamic, 4.0).loss_scale
    assert tf.is_tensor(scale) and not isinstance(scale, tf.Variable)
    assert (scale.dtype, scale.shape) == (tf.float32, ())


def test_the_weights_with_a_fixed_scale_are_those_of_the_inner_optimizer(family):
    optimizer = tf_lso.LossScaleOptimizer(FAMILIES[family].SGD(0.1), False, 4.0)
    weights = optimizer.get_weights()
    assert len(weights) == len(optimizer.weights)
    optimizer.set_weights(weights)


# --- The inner optimizer, and its attributes.


def test_repr_works_in_a_traced_function_and_on_replicas(family, mirrored2):
    """In a graph, the scale and the count have no values to show."""
    with mirrored2.scope():
        optimizer = wrapped(family)
    texts = []
    mirrored2.run(lambda: texts.append(repr(optimizer)))
    assert set(texts) == {repr(optimizer)}
    traced = []
    tf.function(lambda: traced.append(repr(optimizer)))()
    assert traced == ["<LossScaleOptimizer around SGD>"]


def test_a_subclass_may_show_itself_before_it_calls_the_constructor():
    shown = []

    class Own(tf_lso.LossScaleOptimizer):
        def __init__(self, inner):
            shown.append(repr(self))
            super().__init__(inner)

    Own(FAMILIES[CURRENT].SGD())
    assert "Own object at" in shown[0]


def test_decayed_lr_follows_the_schedule(family, x):
    schedules = KERASES[family].optimizers.schedules
    schedule = schedules.PiecewiseConstantDecay([0, 1], [0.5, 0.25, 0.125])
    optimizer = wrapped(family, "SGD", schedule)
    rates = []
    for _ in range(3):
        rates.append(tf.convert_to_tensor(optimizer._decayed_lr(tf.float16)))
        step(optimizer, x)
    assert {rate.dtype for rate in rates} == {tf.float16}
    assert [float(rate) for rate in rates] == [0.5, 0.25, 0.125]


@pytest.mark.core
@pytest.mark.parametrize("value", [7, tf.constant(7)])
def test_iterations_are_those_of_the_inner_optimizer_and_may_be_set(
    optimizer, x, value
):
    assert raw(optimizer.iterations).dtype == tf.int64
    assert raw(optimizer.iterations) is raw(optimizer.inner_optimizer.iterations)
    optimizer.iterations = value
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


def test_the_default_name(family):
    """It is the name of the inner optimizer, or in Keras 3 that of the class."""
    inner = FAMILIES[family].SGD(name="mine")
    name = tf_lso.LossScaleOptimizer(inner).name
    assert name.startswith("loss_scale_optimizer" if family == "keras3" else "mine")
    assert inner.get_config()["name"] == "mine"


# --- State.


def test_weights_without_the_scale_do_not_change_the_scale(optimizer, x):
    step(optimizer, x)
    optimizer.set_weights([w * 0 + 3 for w in optimizer.get_weights()[:-2]])
    assert float(optimizer.loss_scale) == 8.0
    assert int(optimizer.dynamic_counter) == 1
    assert int(copies(optimizer.iterations)[0]) == 3
    assert float(copies(optimizer.weights[-1])[0]) == 3.0


# --- Methods.


@newer_families
def test_finalize_variable_values_assigns_the_averages(family, x):
    optimizer = wrapped(family, use_ema=True, ema_momentum=0.5)
    for _ in range(2):
        step(optimizer, x)
    assert float(x) == pytest.approx(0.6)
    optimizer.finalize_variable_values([x])
    assert float(x) != pytest.approx(0.6)


def test_finalize_variable_values_does_nothing_without_averages(optimizer, x):
    step(optimizer, x)
    optimizer.finalize_variable_values([x])
    assert float(x) == pytest.approx(0.8)


def test_a_variable_with_the_gradient_none_is_left_out_with_one_warning(family, caplog):
    optimizer = wrapped(family)
    x, y = tf.Variable(1.0), tf.Variable(1.0, name="left_out")
    for _ in range(2):
        optimizer.apply_gradients([(tf.constant(2.0), x), (None, y)])
    assert (float(x), float(y)) == (pytest.approx(0.6), 1.0)
    assert caplog.text.count("left_out") == 1


def test_get_gradients_names_a_variable_that_the_loss_does_not_depend_on(optimizer, x):
    y = tf.Variable(1.0, name="independent")
    with pytest.raises(ValueError, match="independent"):
        tf.function(lambda: optimizer.get_gradients(2.0 * x, [y]))()


@newer_families
def test_aggregate_gradients_sums_over_replicas(family, mirrored2):
    with mirrored2.scope():
        x, optimizer = tf.Variable(1.0), wrapped(family)

    def aggregated():
        pairs = optimizer.aggregate_gradients([(tf.constant(2.0), x), (None, x)])
        assert pairs[1][0] is None
        return pairs[0][0]

    results = mirrored2.run(tf.function(aggregated))
    assert [float(v) for v in results.values] == [4.0, 4.0]


@pytest.mark.core
def test_apply_without_variables_uses_those_of_build(optimizer, x):
    optimizer.build([x])
    optimizer.apply([tf.constant(16.0)])  # divided by the scale, which is 8
    assert float(x) == pytest.approx(0.8)


@pytest.mark.core
@needs_keras3
def test_an_inner_loss_scale_factor_does_not_scale_twice():
    optimizer, x = wrapped("keras3", loss_scale_factor=4.0), keras.Variable(1.0)
    optimizer.minimize(lambda: 2.0 * x.value, [x])
    assert float(raw(x)) == pytest.approx(0.8)


@newer_families
def test_excluded_variables_do_not_decay(family):
    optimizer = wrapped(family, weight_decay=0.5)
    x, y = tf.Variable(1.0, name="kernel"), tf.Variable(1.0, name="bias")
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    optimizer.minimize(lambda: 0.0 * x + 0.0 * y, [x, y])
    assert float(x) == pytest.approx(0.95)
    assert float(y) == 1.0


@needs_keras3
def test_methods_that_add_variables_add_them_to_the_inner_optimizer():
    optimizer, x = wrapped("keras3"), keras.Variable(1.0)
    optimizer.build([x])
    added = [
        optimizer.add_variable((), name="a"),
        optimizer.add_variable_from_reference(x, name="b"),
    ]
    if hasattr(keras.optimizers.SGD, "add_optimizer_variables"):
        added += optimizer.add_optimizer_variables([x], "c")
    for variable in added:
        assert any(variable is v for v in optimizer.inner_optimizer.variables)


@needs_keras3
def test_update_step_and_assign_add_change_a_variable():
    optimizer, x = wrapped("keras3"), keras.Variable(1.0)
    optimizer.build([x])
    optimizer.update_step(tf.constant(1.0), x, 0.5)
    optimizer.assign_add(x, 2.0)
    assert number(x) == 2.5


def test_tf_lso_defines_every_public_method_of_the_base_class(family):
    """A method that tf_lso does not define would not act on the inner optimizer.

    If a new version of Keras adds a method, tf_lso must delegate or define it, or this test
    must list it with a reason.
    """
    cls, inherited = type(wrapped(family)), set()
    for name in dir(FAMILIES[family].Optimizer):
        owner = next((c for c in cls.__mro__ if name in vars(c)), cls)
        if not name.startswith("_") and not owner.__module__.startswith("tf_lso"):
            inherited.add(name)
    # `save_own_variables` saves `variables`, which tf_lso defines.
    assert inherited <= {"save_own_variables"}


def test_minimize_accepts_a_nested_list_of_variables(optimizer, x):
    y = tf.Variable(2.0)
    optimizer.minimize(lambda: x + 2.0 * y, [[x], [y]])
    assert (float(x), float(y)) == (pytest.approx(0.9), pytest.approx(1.8))
