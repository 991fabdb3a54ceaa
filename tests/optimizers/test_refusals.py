"""Calls that are refused: the type of the error, its message, and that nothing changes."""

import contextlib
import sys

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import (
    CURRENT,
    FAMILIES,
    copies,
    keras,
    keras2,
    needs_keras3,
    wrapped,
)
from tests.refused import refused
from tf_lso.frameworks import optimizer_table as table
from tf_lso.keras.mixed_precision import experimental

pytestmark = pytest.mark.core

NAN, INF = float("nan"), float("inf")
G = tf.constant(1.0)  # a gradient


def inner_state(inner):
    """Return the identities of an optimizer's attributes, and its variables' values."""
    variables = inner.variables() if callable(inner.variables) else inner.variables
    return (
        {name: id(value) for name, value in vars(inner).items()},
        [copies(variable) for variable in variables],
    )


def state_of(optimizer, *model_variables):
    """Return the values of all variables that a refused call must not change."""
    scale = optimizer.loss_scale_state
    state = [scale._current_loss_scale, scale._num_good_steps, *model_variables]
    return [np.asarray(copies(v)).tolist() for v in (*optimizer.weights, *state)]


@contextlib.contextmanager
def refused_unchanged(expected, snapshot, *objects):
    """Expect a refusal that does not change what `snapshot(*objects)` returns."""
    before = snapshot(*objects)
    with refused(expected):
        yield
    assert snapshot(*objects) == before


# --- Arguments of the constructor.


def rows(names, values, expected, **other_arguments):
    """Return a row for each argument name and each value.

    A row contains the arguments of a constructor, and what `refused` expects: `expected`, the
    name of the argument and the value.
    """
    return [
        ({name: value, **other_arguments}, f"{expected} ... '{name}' ... {value!r}")
        for name in names
        for value in values
    ]


NOT_BOOLS = [None, 1, np.True_, tf_lso.FixedLossScale(8)]
NOT_POSITIVE = [0, -2.0, NAN, INF, 1e39, 1e-40, 10**400, "abc"]
NOT_NUMBERS = [[2.0], 2j, np.array([1.0, 2.0])]
NOT_STEP_COUNTS = [0, 1.5, NAN, INF, "x", 10**400]
# The arguments of the base class of Keras 3 optimizers.
KERAS3_DEFAULTS = {
    "weight_decay": None,
    "clipnorm": None,
    "clipvalue": None,
    "global_clipnorm": None,
    "use_ema": False,
    "ema_momentum": 0.99,
    "ema_overwrite_frequency": None,
    "loss_scale_factor": None,
    "gradient_accumulation_steps": None,
}
ONLY_DYNAMIC = [
    "dynamic_growth_steps",
    "min_scale",
    "max_scale",
    "growth_factor",
    "backoff_factor",
]
FIXED = {"dynamic": False, "initial_scale": 2}

# The arguments of a call that is refused, and what `refused` expects. A new refusal is one
# more row.
ARGUMENTS = [
    *rows(["dynamic"], NOT_BOOLS, "TypeError: bool"),
    *rows(["dynamic"], [128.0], "TypeError: dynamic=False, initial_scale=128.0"),
    *rows(["dynamic"], ["dynamic"], "TypeError: LossScaleOptimizer(optimizer)"),
    *rows(["initial_scale"], NOT_POSITIVE, "ValueError: must be"),
    *rows(["initial_scale"], [0, NAN], "ValueError: must be", dynamic=False),
    *rows(["initial_scale"], NOT_NUMBERS, "TypeError: must be a number"),
    *rows(["min_scale", "max_scale"], [[2.0]], "TypeError: must be a number"),
    *rows(["min_scale"], [None], "TypeError: must be a number"),
    *rows(["min_scale", "max_scale"], [0], "ValueError: must be"),
    *rows(["dynamic_growth_steps"], [[2.0]], "TypeError: must be"),
    *rows(["dynamic_growth_steps"], NOT_STEP_COUNTS, "ValueError: must be"),
    *rows(["growth_factor", "backoff_factor"], [0], "ValueError: must be"),
    *rows(
        ["initial_scale", "dynamic_growth_steps", "min_scale", "growth_factor"],
        [True, np.True_, tf.constant(True)],
        "TypeError: must be a number ... bool",
    ),
    *rows(["growth_factor"], [0.5], "ValueError: at least 1"),
    *rows(["backoff_factor"], [1.0, 2], "ValueError: less than 1"),
    (
        {"min_scale": 8.0, "max_scale": 4, "initial_scale": 2},
        ("ValueError: 'min_scale' (8.0) to 'max_scale' (4.0) ... 2.0"),
    ),
    *rows(["initial_scale"], [0.25], "ValueError: (1.0) to ... (0.5)", max_scale=0.5),
    *rows(["initial_scale"], [16.0], "ValueError: 'max_scale' (4", max_scale=4),
    *rows(["initial_scale"], [2], "ValueError: 'min_scale' (4", min_scale=4),
    *rows(["initial_scale"], [0.25], "ValueError: 'min_scale' (0.5", min_scale=0.5),
    ({"max_scale": 4}, "ValueError: 'initial_scale' must be ... 'max_scale' (4"),
    ({"dynamic": False}, "ValueError: 'initial_scale' must be specified ... 'dynamic'"),
    *rows(ONLY_DYNAMIC, [3.0], "ValueError: must not be given ... 'dynamic'", **FIXED),
    ({"initial_scal": 2}, "TypeError: 'initial_scal'. Did you mean 'initial_scale'?"),
    ({"dynamc": False}, "TypeError: 'dynamc'. Did you mean 'dynamic'?"),
    ({"clip_norm": None}, "TypeError: 'clip_norm'. Did you mean 'clipnorm'?"),
    ({"zzz": 2}, "TypeError: 'zzz'. It accepts: optimizer, ... max_scale, name."),
    *rows(["loss_scale"], ["dynamic", 128], "TypeError: dynamic=False, initial_scale="),
    *rows(KERAS3_DEFAULTS, [0.25], "ValueError: on the inner optimizer"),
    *rows(["ema_momentum"], [0.0], "ValueError: on the inner optimizer"),
]


@pytest.mark.parametrize(
    "arguments, expected", ARGUMENTS, ids=[str(row[0])[:50] for row in ARGUMENTS]
)
def test_a_refused_argument_leaves_the_inner_optimizer_unchanged(arguments, expected):
    inner = FAMILIES[CURRENT].SGD(0.1, momentum=0.9)
    with refused_unchanged(expected, inner_state, inner):
        tf_lso.LossScaleOptimizer(inner, **arguments)
    assert tf_lso.LossScaleOptimizer(inner).inner_optimizer is inner


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ({"los_scale": 2}, "TypeError: 'los_scale'. Did you mean 'loss_scale'?"),
        ({"loss_scale": 2, "nam": "a"}, "TypeError: 'nam'. Did you mean 'name'?"),
        ({"loss_scale": 2, "dynamic": True}, "TypeError: 'dynamic'. It accepts: "),
    ],
)
def test_an_argument_of_the_experimental_class_is_refused(arguments, expected):
    inner = FAMILIES[CURRENT].SGD(0.1, momentum=0.9)
    with refused_unchanged(expected, inner_state, inner):
        experimental.LossScaleOptimizer(inner, **arguments)


def test_a_subclass_of_the_experimental_class_may_accept_more_arguments():
    class Subclass(experimental.LossScaleOptimizer):
        def __init__(self, optimizer, loss_scale, los_scale):
            super().__init__(optimizer, loss_scale)
            self.los_scale = los_scale

    assert Subclass(FAMILIES[CURRENT].SGD(), 2, los_scale=3).los_scale == 3


def test_arguments_of_keras_3_are_accepted_at_their_defaults():
    assert table.Keras3Arguments.__annotations__.keys() == KERAS3_DEFAULTS.keys()
    assert tf_lso.LossScaleOptimizer(FAMILIES[CURRENT].SGD(), **KERAS3_DEFAULTS).dynamic


def test_with_the_largest_number_of_growth_steps_the_scale_never_grows():
    optimizer, x = wrapped(CURRENT, growth=sys.maxsize), tf.Variable(1.0)
    optimizer.minimize(lambda: 2.0 * x, [x])
    assert optimizer.dynamic_growth_steps == sys.maxsize
    assert float(optimizer.loss_scale) == 8.0


# --- The inner optimizer.


def test_what_is_not_an_optimizer_is_refused():
    for value in (None, tf.compat.v1.train.GradientDescentOptimizer(0.1)):
        with refused(
            f"TypeError: 'optimizer' ... {value!r} ... {type(value)} ... Pass"
        ):
            tf_lso.LossScaleOptimizer(value)
    with refused("TypeError: Pass an instance: SGD(...)."):
        tf_lso.LossScaleOptimizer(keras.optimizers.SGD)


def test_none_or_two_optimizers_are_refused():
    first, second = FAMILIES[CURRENT].SGD(), FAMILIES[CURRENT].SGD()
    before = inner_state(first), inner_state(second)
    with refused("TypeError: 'optimizer' ... got 0"):
        tf_lso.LossScaleOptimizer()
    with refused("TypeError: 'optimizer' ... 'inner_optimizer' ... got 2"):
        tf_lso.LossScaleOptimizer(first, inner_optimizer=second)
    assert (inner_state(first), inner_state(second)) == before


def wrapped_by_keras2(family):
    return keras2.mixed_precision.LossScaleOptimizer(FAMILIES[family].SGD())


@pytest.mark.parametrize(
    "make",
    [
        lambda: wrapped(CURRENT),
        lambda: wrapped_by_keras2("legacy"),
        pytest.param(
            lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD()),
            marks=needs_keras3,
        ),
    ],
    ids=["tf_lso", "Keras 2", "Keras 3"],
)
def test_a_loss_scale_optimizer_is_not_wrapped_again(make):
    inner, x = make(), tf.Variable(1.0)
    expected = f"TypeError: optimizer ... {inner!r} ... `inner_optimizer`"
    with refused_unchanged(expected, lambda: vars(inner).copy()):
        tf_lso.LossScaleOptimizer(inner)
    inner.apply_gradients([(tf.constant(0.0), x)])
    assert float(x) == 1.0


@pytest.mark.parametrize("family", ["legacy", "new"])
def test_tf_lso_does_not_wrap_an_optimizer_that_keras_2_has_wrapped(family):
    inner = wrapped_by_keras2(family).inner_optimizer
    with refused_unchanged(
        "ValueError: 'optimizer' ... already wrapped", inner_state, inner
    ):
        tf_lso.LossScaleOptimizer(inner)


def test_an_inner_optimizer_that_cannot_leave_aggregation_to_the_caller_is_refused():
    class WithoutKeyword(keras2.optimizers.legacy.SGD):
        def apply_gradients(self, grads_and_vars, name=None):
            return super().apply_gradients(grads_and_vars, name=name)

    inner = WithoutKeyword(0.1)
    expected = (
        "TypeError: WithoutKeyword ... 'experimental_aggregate_gradients' ... Add"
    )
    with refused_unchanged(expected, inner_state, inner):
        tf_lso.LossScaleOptimizer(inner)


# --- Calls of methods.

# Calls that are refused, and what `refused` expects. `o` is an optimizer, and `G` is a
# gradient. `x` and `y` are model variables, and `o` is built only for `x`. `fixed` and
# `experimental` are an optimizer with a fixed scale and one of the experimental class. A new
# refusal is one more row.
CALLS = {
    "o.apply([G], [x, y])": "ValueError: 'grads' ... 1 elements ... 2 variables ... None",
    "o.apply_gradients([(None, x), (None, y)])": (
        "ValueError: No gradients ... x:0 ... y:0 ... GradientTape"
    ),
    "o.apply_gradients([G])": f"ValueError: pairs ... element {G!r} ... zip(",
    "o.apply_gradients([(G, x, 1)])": "ValueError: 'grads_and_vars' ... pairs",
    "o.apply_gradients(None)": "TypeError: 'grads_and_vars' ... None",
    "o.apply_gradients([([G], x)])": "TypeError: 'grads' ... list ... flatten",
    "o.apply(3, [x])": "TypeError: 'grads'",
    "o.apply_gradients([(G, x), (G, G)])": f"TypeError: variables ... {G!r} ... Eager",
    "o.minimize(x * 2.0, [x])": "ValueError: `tape` ... loss ... GradientTape",
    "o.minimize(lambda: 3.0, [x])": "TypeError: 'loss' ... 3.0 ... tensor",
    "o.get_scaled_loss(3.0)": "TypeError: 'loss' ... 3.0 ... tf.convert_to_tensor",
    "o.get_scaled_loss(lambda: 3.0)()": "TypeError: 'loss' ... 3.0 ... tensor",
    "o.scale_loss(None)": "TypeError: 'loss' must be a tensor or a number ... None",
    "o.get_unscaled_gradients(None)": "TypeError: 'grads' ... None",
    "o.get_unscaled_gradients({'a': G})": "TypeError: 'a' of type str in 'grads'",
    "o.get_unscaled_gradients([()])": "TypeError: () of type tuple in 'grads'",
    "o.get_unscaled_gradients([(G, x)])": "TypeError: 'grads' ... pairs ... --like 2.3",
    "o.set_weights(o.get_weights()[:1])": (
        "ValueError: 'weights' ... 1 arrays ... without the loss scale"
    ),
    "o.set_weights([*o.get_weights()[:-1], np.ones(3)])": (
        "ValueError: good_steps ... (3,) ... ()"
    ),
    "o.set_weights([*ones(o)[:-1], np.ones(1)])": (
        "ValueError: good_steps ... (1,) ... ()"
    ),
    "o.set_weights([*ones(o)[:-2], '8', 1])": "TypeError: 'weights' must hold numbers",
    "o.set_weights([*ones(o)[:-1], None])": "TypeError: 'weights' must hold numbers",
    "o.set_weights(None)": "TypeError: 'weights' ... None",
    "o.stateless_apply([], [G], [x])": "ValueError: stateless_apply ... TensorFlow",
    "tf.function(lambda: o.last_overflow)()": "RuntimeError: eager code only",
    "o.loss_scale = 0.5": "ValueError: 'loss_scale' must be ... 0.5",
    "o.loss_scale = float('inf')": "ValueError: 'loss_scale' must be ... inf",
    "o.loss_scale = None": "TypeError: must be a number",
    "tf_lso.DynamicLossScale(2, max_loss_scale=4).assign(5)": "ValueError: must be ... 5",
    "fixed.loss_scale = 8.0": "AttributeError: Create a new optimizer",
    "experimental.loss_scale = 4.0": "AttributeError: loss_scale.assign",
}


def ones(optimizer):
    return [np.ones_like(weight) for weight in optimizer.get_weights()]


@pytest.mark.parametrize("call", CALLS)
def test_a_refused_call_changes_no_state(family, call):
    optimizer = wrapped(family, momentum=0.9)
    x, y = tf.Variable(1.0, name="x"), tf.Variable(1.0, name="y")
    optimizer.minimize(lambda: 0.0 * x, [x])
    names = {
        "o": optimizer,
        "x": x,
        "y": y,
        "fixed": tf_lso.LossScaleOptimizer(FAMILIES[family].SGD(), False, 4),
        "experimental": wrapped(family, api="experimental"),
    }
    with refused_unchanged(CALLS[call], state_of, optimizer, x, y):
        exec(call, globals() | names)
    optimizer.minimize(lambda: 2.0 * x, [x])
    assert float(x) == pytest.approx(0.8)


@pytest.mark.parametrize(
    "call, call_of_other_protocol",
    [("get_scaled_loss", "scale_loss"), ("scale_loss", "get_scaled_loss")],
)
def test_after_a_refused_loss_the_other_protocol_may_scale_the_loss(
    call, call_of_other_protocol
):
    optimizer = wrapped(CURRENT)
    with pytest.raises((TypeError, ValueError, tf.errors.OpError)):
        getattr(optimizer, call)(tf.constant("text"))
    assert float(getattr(optimizer, call_of_other_protocol)(G)) == 8.0


def test_apply_needs_variables_until_the_optimizer_is_built(family):
    optimizer = wrapped(family)
    optimizer.apply([])  # this does nothing
    with refused("ValueError: 'trainable_variables' ... build("):
        optimizer.apply([G])
    assert int(copies(optimizer.iterations)[0]) == 0


def test_after_a_refused_apply_the_gradients_are_still_unscaled_once():
    optimizer, x = wrapped(CURRENT), tf.Variable(1.0)
    with tf.GradientTape() as tape:
        scaled = optimizer.scale_loss(2.0 * x)
    gradient = tape.gradient(scaled, x)
    with pytest.raises(ValueError, match="elements"):
        optimizer.apply([gradient, gradient], [x])
    with pytest.raises(ValueError, match="pairs"):
        optimizer.apply_gradients([gradient])
    optimizer.apply([gradient], [x])
    assert float(x) == pytest.approx(0.8)


# --- Strategies.


def step_on_replicas(strategy, optimizer, *variables):
    """Take a step with a gradient of 1 for each variable on each replica."""

    def step():
        optimizer.apply_gradients([(G * 1, v) for v in variables])

    strategy.run(tf.function(step))


def test_the_constructor_and_a_step_refuse_an_unsupported_strategy():
    strategy = tf.distribute.experimental.CentralStorageStrategy(["CPU:0", "CPU:1"])
    expected = "ValueError: CentralStorageStrategy ... not supported ... Mirrored"
    inner = FAMILIES[CURRENT].SGD(0.1)
    with strategy.scope(), refused_unchanged(expected, inner_state, inner):
        tf_lso.LossScaleOptimizer(inner)
    optimizer, x = tf_lso.LossScaleOptimizer(inner), tf.Variable(1.0)
    with refused_unchanged(expected, state_of, optimizer, x):
        strategy.run(lambda: optimizer.apply_gradients([(G, x)]))


@pytest.mark.parametrize(
    "make_strategy",
    [
        lambda: tf.distribute.OneDeviceStrategy("CPU:0"),
        lambda: tf.compat.v1.distribute.OneDeviceStrategy("CPU:0"),
        lambda: tf.compat.v1.distribute.MirroredStrategy(["CPU:0"]),
        tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy,
    ],
    ids=["one device", "OneDeviceStrategy", "MirroredStrategy", "workers"],
)
def test_strategies_of_one_device_and_of_compat_v1_are_supported(make_strategy):
    strategy = make_strategy()
    with strategy.scope():
        x, optimizer = tf.Variable(1.0), wrapped(CURRENT)
    before = state_of(optimizer, x)
    step_on_replicas(strategy, optimizer, x)
    assert state_of(optimizer, x) != before


@pytest.mark.parametrize(
    "call", ["o.apply_gradients([(G, x)])", "o.apply_gradients([])"]
)
def test_a_step_in_cross_replica_context_is_refused(mirrored2, call):
    expected = "ValueError: replica context ... Strategy.run"
    with mirrored2.scope():
        o, x = wrapped(CURRENT), tf.Variable(1.0)
        with refused_unchanged(expected, state_of, o, x):
            eval(call, globals() | {"o": o, "x": x})


def test_a_model_variable_made_outside_the_scope_is_refused(mirrored2):
    stray = tf.Variable(1.0, name="stray")
    with mirrored2.scope():
        optimizer, x = wrapped(CURRENT), tf.Variable(1.0)
    expected = "ValueError: stray ... outside the scope ... strategy.scope()"
    with refused_unchanged(expected, state_of, optimizer, x, stray):
        step_on_replicas(mirrored2, optimizer, x, stray)


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (
            {"gradient_accumulation_steps": 2},
            "gradient_accumulation_steps=2 ... 2 replicas ... in the training loop",
        ),
        (
            {"ema_overwrite_frequency": 2, "use_ema": True},
            "ema_overwrite_frequency=2 ... 2 replicas ... finalize",
        ),
    ],
)
@needs_keras3
def test_what_keras_3_cannot_do_on_replicas_is_refused(mirrored2, arguments, expected):
    with mirrored2.scope():
        x = tf.Variable(1.0)
        inner = keras.optimizers.SGD(0.1, **arguments)
        inner.build([x])
        optimizer = tf_lso.LossScaleOptimizer(inner)
    with refused_unchanged(f"ValueError: {expected}", state_of, optimizer, x):
        step_on_replicas(mirrored2, optimizer, x)


@needs_keras3
def test_the_frequency_of_averages_that_nothing_computes_is_accepted(mirrored2):
    with mirrored2.scope():
        inner = keras.optimizers.SGD(0.1, ema_overwrite_frequency=2)
        x, optimizer = tf.Variable(1.0), tf_lso.LossScaleOptimizer(inner)
    step_on_replicas(mirrored2, optimizer, x)
    assert float(copies(x)[0]) == pytest.approx(0.8)


@needs_keras3
def test_an_optimizer_that_was_built_outside_the_scope_is_refused(mirrored2):
    with mirrored2.scope():
        x = tf.Variable(1.0)
    inner = keras.optimizers.SGD(0.1, momentum=0.9)
    inner.build([x])
    optimizer = tf_lso.LossScaleOptimizer(inner)
    expected = "ValueError: momentum ... outside the scope ... strategy.scope()"
    with refused_unchanged(expected, state_of, optimizer, x):
        step_on_replicas(mirrored2, optimizer, x)


# --- Attributes.


@pytest.mark.parametrize("family", ["keras3", "new"])
def test_decay_is_refused_by_newer_optimizers_unless_it_is_0(family):
    optimizer = wrapped(family)
    expected = "ValueError: 'decay' ... 0.5 ... InverseTimeDecay"
    with refused_unchanged(expected, inner_state, optimizer.inner_optimizer):
        optimizer.decay = 0.5
    assert optimizer.decay == 0.0
    optimizer.decay = 0.0


@pytest.mark.parametrize("name", ["weight_decay", "use_ema"])
def test_an_attribute_that_the_inner_optimizer_lacks_cannot_be_set(name):
    optimizer = wrapped("legacy")
    expected = f"AttributeError: '{name}' ... 0.5 ... SGD"
    with refused_unchanged(expected, inner_state, optimizer.inner_optimizer):
        setattr(optimizer, name, 0.5)
    assert not hasattr(optimizer, name)


# --- The classes of loss scales.


@pytest.mark.parametrize("value", [0.5, NAN, INF, 1e39, 10**400, "128", G])
def test_a_value_of_a_fixed_loss_scale_is_refused(value):
    with refused(f"ValueError: {value!r}"):
        tf_lso.FixedLossScale(value)


@pytest.mark.parametrize(
    "arguments, expected",
    [
        *rows(
            ["initial_loss_scale", "multiplier", "min_loss_scale", "increment_period"],
            [0],
            "ValueError: must be",
        ),
        *rows(["initial_loss_scale"], [[2.0]], "TypeError: must be"),
        *rows(["initial_loss_scale"], [16], "ValueError: 16 ... (8", max_loss_scale=8),
        (
            {"initial_loss_scale": 2, "min_loss_scale": 9, "max_loss_scale": 8},
            ("ValueError: 'min_loss_scale' (9 ... 'max_loss_scale' (8"),
        ),
    ],
)
def test_an_argument_of_a_dynamic_loss_scale_is_refused(arguments, expected):
    with refused(expected):
        tf_lso.DynamicLossScale(**arguments)


def test_an_object_that_is_not_a_loss_scale_cannot_replace_the_loss_scale():
    """NeurST (2020) assigned an instance of a subclass of a private class of TensorFlow."""

    class NotALossScale:
        def update(self, gradients):
            return None, True

    with refused("TypeError: must be a tf_lso.LossScale"):
        wrapped(CURRENT)._loss_scale = NotALossScale()
