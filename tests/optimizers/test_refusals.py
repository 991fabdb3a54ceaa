"""Every refusal: its type, what its message says, and that nothing has changed."""

import contextlib
import functools
import itertools
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.distribute import one_device_strategy

import tf_lso
from tests.families import (
    CURRENT,
    FAMILIES,
    HAS_KERAS3,
    copies,
    keras,
    keras2,
    needs_keras3,
    raw,
    wrapped,
)
from tests.refused import refused
from tf_lso.frameworks import optimizer_table as table
from tf_lso.keras.mixed_precision import experimental

pytestmark = pytest.mark.core

NAN, INF = float("nan"), float("inf")
G = tf.constant(1.0)


def attributes_of(inner):
    """What an optimizer holds: the identity of each attribute, each variable's value."""
    variables = inner.variables() if callable(inner.variables) else inner.variables
    return (
        {name: id(value) for name, value in vars(inner).items()},
        [copies(variable) for variable in variables],
    )


def state_of(optimizer, *model_variables):
    """The numbers that a refused call must not change."""
    scale = optimizer.loss_scale_state
    state = [scale._current_loss_scale, scale._num_good_steps, *model_variables]
    return [np.asarray(copies(v)).tolist() for v in (*optimizer.weights, *state)]


@contextlib.contextmanager
def refused_unchanged(expected, snapshot, *objects):
    """Expect a refusal that changes nothing of what the snapshot has."""
    before = snapshot(*objects)
    with refused(expected):
        yield
    assert snapshot(*objects) == before


# --- Arguments of the constructor: a new refusal is one more row of ARGUMENTS.

NO_BOOL = [None, 1, 0, 128.0, np.float32(128), "dynamic", "true", np.True_, G, [True]]
NOT_POSITIVE = [0, -2.0, NAN, INF, -INF, np.float32(NAN), 1e39, 1e-50, 10**400, "abc"]
NO_NUMBER = [[2.0], [], ..., 2j, np.array([1.0, 2.0]), {}, float]
NO_STEPS = [0, -1, 1.5, 0.5, NAN, INF, "x", 10**400]
NONE_BY_DEFAULT = (
    "weight_decay clipnorm clipvalue global_clipnorm ema_overwrite_frequency "
    "loss_scale_factor gradient_accumulation_steps"
)
KERAS3_DEFAULTS = dict.fromkeys(NONE_BY_DEFAULT.split())
KERAS3_DEFAULTS |= {"use_ema": False, "ema_momentum": 0.99}


def rows(names, values, expected, **others):
    """Arguments with each name and value, and what is said, which has both."""
    return [
        ({name: value, **others}, f"{expected} ... '{name}' ... {value!r}")
        for name, value in itertools.product(names.split(), values)
    ]


OF_DYNAMIC = (
    "dynamic_growth_steps min_scale max_scale growth_factor backoff_factor hysteresis"
)
FIXED = {"dynamic": False, "initial_scale": 2}
ARGUMENTS = [
    *rows("dynamic", [*NO_BOOL, tf_lso.FixedLossScale(8)], "TypeError: bool"),
    *rows("dynamic", [128.0], "TypeError: dynamic=False, initial_scale=128.0"),
    *rows("dynamic", ["dynamic"], "TypeError: LossScaleOptimizer(optimizer)"),
    *rows("initial_scale", NOT_POSITIVE, "ValueError: must be"),
    *rows("initial_scale", NOT_POSITIVE, "ValueError: must be", dynamic=False),
    *rows("initial_scale", NO_NUMBER, "TypeError: must be a number"),
    *rows("min_scale max_scale", NO_NUMBER[:2], "TypeError: must be a number"),
    *rows("min_scale", [None], "TypeError: must be a number"),
    *rows("min_scale max_scale", [0, NAN, INF], "ValueError: must be"),
    *rows("dynamic_growth_steps", NO_NUMBER, "TypeError: must be"),
    *rows("dynamic_growth_steps", NO_STEPS, "ValueError: must be"),
    *rows("growth_factor backoff_factor hysteresis", [0], "ValueError: must be"),
    *rows("growth_factor", [0.5], "ValueError: at least 1"),
    *rows("backoff_factor", [1.0, 2], "ValueError: less than 1"),
    (
        {"min_scale": 8.0, "max_scale": 4, "initial_scale": 2},
        ("ValueError: 'min_scale' ... 8.0 ... 'max_scale' (4"),
    ),
    *rows("initial_scale", [16.0], "ValueError: 'max_scale' (4", max_scale=4),
    ({"max_scale": 4}, "ValueError: 'initial_scale' (32768 ... 'max_scale' (4"),
    ({"dynamic": False}, "ValueError: 'initial_scale' must be specified ... 'dynamic'"),
    *rows(OF_DYNAMIC, [3.0], "ValueError: must not be given ... 'dynamic'", **FIXED),
    ({"initial_scal": 2}, "TypeError: 'initial_scal'. Did you mean 'initial_scale'?"),
    ({"dynamc": False}, "TypeError: 'dynamc'. Did you mean 'dynamic'?"),
    ({"clip_norm": None}, "TypeError: 'clip_norm'. Did you mean 'clipnorm'?"),
    ({"zzz": 2}, "TypeError: 'zzz'. It accepts: optimizer, ... max_scale, name."),
    *rows("loss_scale", ["dynamic", 128], "TypeError: dynamic=False, initial_scale="),
    *rows(" ".join(KERAS3_DEFAULTS), [0.25], "ValueError: on the inner optimizer"),
]


@pytest.mark.parametrize(
    "arguments, expected, family",
    [(*row, family) for row, family in zip(ARGUMENTS, itertools.cycle(FAMILIES))],
    ids=[str(arguments)[:50] for arguments, _ in ARGUMENTS],
)
def test_an_argument_is_refused_and_the_inner_optimizer_is_as_before(
    family, arguments, expected
):
    inner = FAMILIES[family].SGD(0.1, momentum=0.9)
    with refused_unchanged(expected, attributes_of, inner):
        tf_lso.LossScaleOptimizer(inner, **arguments)
    assert tf_lso.LossScaleOptimizer(inner).inner_optimizer is inner


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"los_scale": 2}, "TypeError: 'los_scale'. Did you mean 'loss_scale'?"),
        ({"loss_scale": 2, "nam": "a"}, "TypeError: 'nam'. Did you mean 'name'?"),
        ({"loss_scale": 2, "dynamic": True}, "TypeError: 'dynamic'. It accepts: "),
    ],
)
def test_an_argument_of_the_experimental_class_is_refused(family, arguments, expected):
    inner = FAMILIES[family].SGD(0.1, momentum=0.9)
    with refused_unchanged(expected, attributes_of, inner):
        experimental.LossScaleOptimizer(inner, **arguments)


def test_a_subclass_of_the_experimental_class_may_accept_more_arguments(family):
    class Wider(experimental.LossScaleOptimizer):
        def __init__(self, optimizer, loss_scale, los_scale):
            super().__init__(optimizer, loss_scale)
            self.los_scale = los_scale

    assert Wider(FAMILIES[family].SGD(), 2, los_scale=3).los_scale == 3


def test_keras3_base_arguments_are_accepted_at_their_defaults(family):
    assert table.Keras3Arguments.__annotations__.keys() == KERAS3_DEFAULTS.keys()
    assert tf_lso.LossScaleOptimizer(FAMILIES[family].SGD(), **KERAS3_DEFAULTS).dynamic


def test_the_largest_number_of_growth_steps_never_grows(family):
    optimizer, x = wrapped(family, growth=sys.maxsize), tf.Variable(1.0)
    optimizer.minimize(lambda: 2.0 * x, [x])
    assert optimizer.dynamic_growth_steps == sys.maxsize
    assert float(optimizer.loss_scale) == 8.0


# --- What is wrapped.

NO_OPTIMIZERS = (
    "None",
    "'sgd'",
    "1",
    "object()",
    "{'class_name': 'SGD'}",
    "[keras.optimizers.SGD()]",
    "keras.optimizers.SGD",
    "keras2.optimizers.Adam",
    "rows",  # a function
    "tf.compat.v1.train.GradientDescentOptimizer(0.1)",
    "keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)",
    "keras.layers.Dense(1)",
    "tf.Variable(1.0)",
    "tf_lso.FixedLossScale(8)",
    "tf_lso.LossScaleOptimizer",
)


@pytest.mark.parametrize("text", NO_OPTIMIZERS)
def test_what_is_no_optimizer_is_refused(text):
    value = eval(text)
    is_class = isinstance(value, type)
    said = f"Pass an instance: {value.__name__}(...)." if is_class else "Pass"
    expected = f"TypeError: 'optimizer' ... {value!r} ... {said}"
    with refused(f"{expected} ... {(value if is_class else type(value)).__name__}"):
        tf_lso.LossScaleOptimizer(value)
    with refused(expected):
        tf_lso.LossScaleOptimizer(inner_optimizer=value)


def test_none_or_two_optimizers_are_refused(family):
    first, second = FAMILIES[family].SGD(), FAMILIES[family].SGD()
    before = attributes_of(first), attributes_of(second)
    with refused("TypeError: 'optimizer' ... got 0"):
        tf_lso.LossScaleOptimizer()
    with refused("TypeError: 'optimizer' ... 'inner_optimizer' ... got 2"):
        tf_lso.LossScaleOptimizer(first, inner_optimizer=second)
    assert (attributes_of(first), attributes_of(second)) == before


def of_tf_keras(family):
    return keras2.mixed_precision.LossScaleOptimizer(FAMILIES[family].SGD())


LOSS_SCALE_OPTIMIZERS = {
    **{f"tf_lso-{family}": functools.partial(wrapped, family) for family in FAMILIES},
    "tf_keras-legacy": functools.partial(of_tf_keras, "legacy"),
    "tf_keras-new": functools.partial(of_tf_keras, "new"),
}
if HAS_KERAS3:
    LOSS_SCALE_OPTIMIZERS["keras"] = lambda: keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD()
    )


@pytest.mark.parametrize("kind", LOSS_SCALE_OPTIMIZERS)
def test_a_loss_scale_optimizer_is_not_wrapped_again(kind):
    inner, x = LOSS_SCALE_OPTIMIZERS[kind](), tf.Variable(1.0)
    said = f"TypeError: optimizer ... {inner!r} ... `inner_optimizer`"
    with refused_unchanged(said, lambda: vars(inner).copy()):
        tf_lso.LossScaleOptimizer(inner)
    inner.apply_gradients([(tf.constant(0.0), x)])
    assert float(x) == 1.0


def test_an_optimizer_is_wrapped_only_once(family):
    inner = FAMILIES[family].SGD(0.5)
    optimizer = tf_lso.LossScaleOptimizer(inner, initial_scale=4)
    said = f"ValueError: 'optimizer' ... already wrapped ... {inner!r} ... new"
    with refused_unchanged(said, attributes_of, inner):
        tf_lso.LossScaleOptimizer(inner)
    x = tf.Variable(1.0)
    optimizer.minimize(lambda: 2.0 * x, [x])
    assert float(x) == 0.0


@pytest.mark.parametrize("family", ["legacy", "new"])
def test_neither_wraps_what_tf_keras_or_tf_lso_has_wrapped(family):
    theirs = of_tf_keras(family)
    inner, said = theirs.inner_optimizer, "ValueError: 'optimizer' ... already wrapped"
    with refused_unchanged(said, attributes_of, inner):
        tf_lso.LossScaleOptimizer(inner)
    ours = wrapped(family)
    with pytest.raises(ValueError, match="already wrapped"):
        keras2.mixed_precision.LossScaleOptimizer(ours.inner_optimizer)


def test_an_inner_optimizer_that_cannot_leave_aggregation_to_the_caller_is_refused():
    class Closed(keras2.optimizers.legacy.SGD):
        def apply_gradients(self, grads_and_vars, name=None):
            return super().apply_gradients(grads_and_vars, name=name)

    inner = Closed(0.1)
    said = "TypeError: Closed ... 'experimental_aggregate_gradients' ... Add"
    with refused_unchanged(said, attributes_of, inner):
        tf_lso.LossScaleOptimizer(inner)


# --- Calls on an optimizer `o` with the model variables x and y: {call: what `refused`
# expects}. A new refusal of a call is one more row.

CALLS = {
    "o.apply([G], [x, y])": "ValueError: 'grads' ... 1 elements ... 2 variables ... None",
    "o.apply([G] * 2, [x])": "ValueError: 'grads' ... 2 elements ... 1 variables",
    "o.apply([], [x])": "ValueError: 'grads' ... 0 elements ... 1 variables",
    "o.apply([None, None], [x, y])": "ValueError: No gradients ... x:0 ... y:0",
    "o.apply_gradients([(None, x), (None, y)])": (
        "ValueError: No gradients ... x:0 ... y:0 ... GradientTape"
    ),
    "o.minimize(lambda: y * 1.0, [x])": "ValueError: No gradients ... x:0",
    "o.apply_gradients([G])": f"ValueError: pairs ... element {G!r} ... zip(",
    "o.apply_gradients([3])": "ValueError: 'grads_and_vars' ... element 3 ... zip(",
    "o.apply_gradients(['gv'])": "ValueError: 'grads_and_vars' ... element 'gv'",
    "o.apply_gradients([(G, x), (G,)])": f"ValueError: pairs ... {(G,)!r}",
    "o.apply_gradients([(G, x, 1)])": "ValueError: 'grads_and_vars' ... pairs",
    "o.apply_gradients(3)": "TypeError: 'grads_and_vars' ... 3",
    "o.apply_gradients(None)": "TypeError: 'grads_and_vars' ... None",
    "o.apply_gradients([([G], x)])": "TypeError: 'grads' ... list ... flatten",
    "o.apply(3, [x])": "TypeError: 'grads'",
    "o.apply_gradients([(G, x), (G, G)])": f"TypeError: variables ... {G!r} ... Eager",
    "o.apply_gradients([(G, np.ones(()))])": "TypeError: variables ... ndarray",
    "o.apply_gradients([(G, 3)])": "TypeError: variables ... 3 ... int",
    "o.apply_gradients([(G, None)])": "TypeError: variables ... None ... NoneType",
    "o.minimize(x * 2.0, [x])": "ValueError: `tape` ... loss ... GradientTape",
    "o.compute_gradients(x * 2.0, [x])": "ValueError: `tape` ... loss ... GradientTape",
    "o.minimize(lambda: 3.0, [x])": "TypeError: 'loss' ... 3.0 ... tensor",
    "o.get_scaled_loss(3.0)": "TypeError: 'loss' ... 3.0 ... tf.convert_to_tensor",
    "o.get_scaled_loss(None)": "TypeError: 'loss' ... None ... tf.convert_to_tensor",
    "o.get_scaled_loss([G])": f"TypeError: 'loss' ... {[G]!r} ... tf.convert_to_tensor",
    "o.get_scaled_loss('x')": "TypeError: 'loss' ... 'x' ... tf.convert_to_tensor",
    "o.get_scaled_loss(lambda: 3.0)()": "TypeError: 'loss' ... 3.0 ... tensor",
    "o.get_unscaled_gradients(None)": "TypeError: 'grads' ... None",
    "o.get_unscaled_gradients([(G, x)])": "TypeError: 'grads' ... pairs ... --like 2.3",
    "o.set_weights(o.get_weights()[:1])": (
        "ValueError: 'weights' ... 1 arrays ... without the loss scale"
    ),
    "o.set_weights([*o.get_weights(), 1.0])": "ValueError: without the loss scale",
    "o.set_weights([*o.get_weights()[:-1], np.ones(3)])": (
        "ValueError: good_steps ... (3,) ... ()"
    ),
    "o.set_weights(None)": "TypeError: 'weights' ... None",
    "o.stateless_apply([], [G], [x])": "ValueError: stateless_apply ... TensorFlow",
    "o.loss_scale = 0.5": "ValueError: 'loss_scale' must be ... 0.5",
    "o.loss_scale = 0.0": "ValueError: 'loss_scale' must be ... 0.0",
    "o.loss_scale = -1.0": "ValueError: 'loss_scale' must be ... -1.0",
    "o.loss_scale = float('inf')": "ValueError: 'loss_scale' must be ... inf",
    "o.loss_scale = float('nan')": "ValueError: 'loss_scale' must be ... nan",
    "o.loss_scale = None": "TypeError: must be a number",
    "tf_lso.DynamicLossScale(2, max_loss_scale=4).assign(5)": "ValueError: must be ... 5",
    "fixed.loss_scale = 8.0": "AttributeError: Make a new optimizer",
    "experimental.loss_scale = 4.0": "AttributeError: loss_scale.assign",
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_is_refused_and_all_state_is_as_before(family, call):
    optimizer = wrapped(family, momentum=0.9)
    x, y = tf.Variable(1.0, name="x"), tf.Variable(1.0, name="y")
    optimizer.minimize(lambda: 0.0 * x, [x])
    names = {"o": optimizer, "x": x, "y": y}
    if "fixed" in call:
        names["fixed"] = tf_lso.LossScaleOptimizer(FAMILIES[family].SGD(), False, 4)
    if "experimental" in call:
        names["experimental"] = wrapped(family, api="experimental")
    with refused_unchanged(CALLS[call], state_of, optimizer, x, y):
        exec(call, globals() | names)
    optimizer.minimize(lambda: 2.0 * x, [x])
    assert float(x) == pytest.approx(0.8)


def test_set_weights_sets_nothing_where_a_later_array_is_no_number(family):
    optimizer, x = wrapped(family, momentum=0.9), tf.Variable(1.0)
    optimizer.minimize(lambda: 2.0 * x, [x])
    before = state_of(optimizer, x)
    weights = [np.full(w.shape, 5) for w in optimizer.get_weights()]
    with pytest.raises((TypeError, ValueError), match=r"weights|array"):
        optimizer.set_weights([*weights[:-2], "scale", weights[-1]])
    assert state_of(optimizer, x) == before


@pytest.mark.parametrize("call", ["get_scaled_loss", "scale_loss"])
def test_a_refused_loss_leaves_the_step_unscaled(family, call):
    optimizer = wrapped(family)
    with pytest.raises((TypeError, ValueError, tf.errors.OpError)):
        getattr(optimizer, call)(tf.constant("text"))
    other = {"get_scaled_loss": "scale_loss", "scale_loss": "get_scaled_loss"}[call]
    assert float(getattr(optimizer, other)(G)) == 8.0


def test_apply_needs_variables_until_the_optimizer_is_built(family):
    optimizer = wrapped(family)
    with refused("ValueError: 'trainable_variables' ... build("):
        optimizer.apply([G])
    assert int(copies(optimizer.iterations)[0]) == 0


def test_gradients_are_still_unscaled_once_after_a_refused_apply(family):
    optimizer, x = wrapped(family), tf.Variable(1.0)
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
    def step():
        optimizer.apply_gradients([(G * 1, v) for v in variables])

    strategy.run(tf.function(step))


class UnheardOfStrategy(tf.distribute.Strategy):
    """A strategy that tf_lso does not know, on one device."""

    def __init__(self):
        super().__init__(one_device_strategy.OneDeviceExtended(self, "/cpu:0"))


def central_storage():
    return tf.distribute.experimental.CentralStorageStrategy(["CPU:0", "CPU:1"])


@pytest.mark.parametrize("make", [central_storage, UnheardOfStrategy])
def test_the_constructor_and_a_step_refuse_an_unsupported_strategy(family, make):
    strategy = make()
    expected = f"ValueError: {type(strategy).__name__} ... not supported ... Mirrored"
    inner = FAMILIES[family].SGD(0.1)
    with strategy.scope(), refused_unchanged(expected, attributes_of, inner):
        tf_lso.LossScaleOptimizer(inner)
    optimizer, x = tf_lso.LossScaleOptimizer(inner), tf.Variable(1.0)
    with refused_unchanged(expected, state_of, optimizer, x):
        strategy.run(lambda: optimizer.apply_gradients([(G, x)]))


@pytest.mark.parametrize(
    "strategy",
    [
        lambda: tf.compat.v1.distribute.OneDeviceStrategy("CPU:0"),
        tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy,
    ],
)
def test_a_supported_strategy_may_be_that_of_compat_v1(strategy):
    strategy = strategy()
    with strategy.scope():
        x, optimizer = tf.Variable(1.0), wrapped(CURRENT)
    before = state_of(optimizer, x)
    step_on_replicas(strategy, optimizer, x)
    assert state_of(optimizer, x) != before


@pytest.mark.parametrize(
    "call",
    [
        "o.apply_gradients([(G, x)])",
        "o.apply([G], [x])",
        "o.minimize(lambda: 2.0 * x, [x])",
        "o.apply_gradients([])",
    ],
)
def test_a_step_in_cross_replica_context_is_refused(family, mirrored2, call):
    said = "ValueError: replica context ... Strategy.run"
    with mirrored2.scope():
        o, x = wrapped(family), tf.Variable(1.0)
        with refused_unchanged(said, state_of, o, x):
            eval(call, globals() | {"o": o, "x": x})


def test_a_model_variable_made_outside_the_scope_is_refused(family, mirrored2):
    stray = tf.Variable(1.0, name="stray")
    with mirrored2.scope():
        optimizer, x = wrapped(family), tf.Variable(1.0)
    said = "ValueError: stray ... outside the scope ... strategy.scope()"
    with refused_unchanged(said, state_of, optimizer, x, stray):
        step_on_replicas(mirrored2, optimizer, x, stray)


ON_REPLICAS = [
    ({"gradient_accumulation_steps": 2}, "=2 ... 2 replicas ... in the training loop"),
    ({"ema_overwrite_frequency": 2, "use_ema": True}, "=2 ... 2 replicas ... finalize"),
    ({"momentum": 0.9}, "outside the scope ... strategy.scope()"),
]


@pytest.mark.parametrize("arguments, said", ON_REPLICAS)
@needs_keras3
def test_what_keras_3_cannot_do_on_replicas_is_refused(mirrored2, arguments, said):
    with mirrored2.scope():
        x = tf.Variable(1.0)
    with contextlib.nullcontext() if "outside" in said else mirrored2.scope():
        inner = keras.optimizers.SGD(0.1, **arguments)
        inner.build([x])
        optimizer = tf_lso.LossScaleOptimizer(inner)
    said = f"ValueError: {next(iter(arguments))} ... {said}"
    with refused_unchanged(said, state_of, optimizer, x):
        step_on_replicas(mirrored2, optimizer, x)


@needs_keras3
def test_averages_overwrite_the_weights_in_the_scope_instead(mirrored2):
    with mirrored2.scope():
        optimizer = wrapped("keras3", use_ema=True, ema_momentum=0.5)
        x = tf.Variable(1.0)
    for _ in range(2):
        step_on_replicas(mirrored2, optimizer, x)
    last = float(x.numpy())
    with mirrored2.scope():
        optimizer.finalize_variable_values([x])
    assert float(x.numpy()) != last


# --- Attributes.


OF_NEWER = "weight_decay use_ema ema_momentum ema_overwrite_frequency".split()
NOT_THERE = [
    ("keras3", "decay", "ValueError: 'decay' ... 0.5 ... InverseTimeDecay"),
    ("new", "decay", "ValueError: 'decay' ... 0.5 ... InverseTimeDecay"),
    *[("legacy", n, f"AttributeError: '{n}' ... 0.5 ... SGD") for n in OF_NEWER],
]


@pytest.mark.parametrize("family, name, expected", NOT_THERE)
def test_what_the_inner_optimizer_does_not_have_is_not_set(family, name, expected):
    optimizer = wrapped(family)
    with refused_unchanged(expected, attributes_of, optimizer.inner_optimizer):
        setattr(optimizer, name, 0.5)
    if name == "decay":  # 0 is none
        assert optimizer.decay == 0.0
        optimizer.decay = 0.0
    else:
        assert not hasattr(optimizer, name)


# --- The loss scales.

NO_FIXED = [0.5, 0, -1.0, NAN, INF, 1e39, 10**400, "128", "dynamic", None, [128.0], G]
POSITIVE = "initial_loss_scale multiplier min_loss_scale"
OF_DYNAMIC_SCALES = [
    *rows(POSITIVE, NOT_POSITIVE[:3], "ValueError: must be"),
    *rows("increment_period", NO_STEPS, "ValueError: must be"),
    *rows("initial_loss_scale", [[2.0]], "TypeError: must be"),
    *rows("initial_loss_scale", [16], "ValueError: (16 ... (8", max_loss_scale=8),
    (
        {"initial_loss_scale": 2, "min_loss_scale": 9, "max_loss_scale": 8},
        ("ValueError: 'min_loss_scale' (9 ... 'max_loss_scale' (8"),
    ),
]
LOSS_SCALES = [
    *(
        (tf_lso.FixedLossScale, {"loss_scale_value": v}, f"ValueError: {v!r}")
        for v in NO_FIXED
    ),
    *((tf_lso.DynamicLossScale, *row) for row in OF_DYNAMIC_SCALES),
    (tf_lso.LossScale, {}, "TypeError: abstract"),
]


@pytest.mark.parametrize("cls, arguments, said", LOSS_SCALES)
def test_a_loss_scale_refuses(cls, arguments, said):
    with refused(said):
        cls(**arguments)


def test_a_state_of_a_loss_scale_of_the_program_s_own():
    """NeurST and others of 2020 derived it from a private class of TensorFlow."""

    class Revised:
        def update(self, gradients):
            return None, True

    with refused("TypeError: must be a tf_lso.LossScale"):
        wrapped(CURRENT)._loss_scale = Revised()


# --- The checks of this file can fail.


def test_the_snapshots_see_a_change(family):
    inner = FAMILIES[family].SGD(0.1, momentum=0.9)
    before = attributes_of(inner)
    optimizer = tf_lso.LossScaleOptimizer(inner)
    assert attributes_of(inner) != before
    x = tf.Variable(1.0)
    numbers = state_of(optimizer, x)
    raw(optimizer.loss_scale_state._num_good_steps).assign(7)
    assert state_of(optimizer, x) != numbers
