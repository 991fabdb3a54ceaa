"""Every refusal: its type, what its message says, and that nothing has changed."""

import contextlib
import functools
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.distribute import one_device_strategy

import tf_lso
from tests.families import (
    FAMILIES,
    HAS_KERAS3,
    copies,
    keras,
    keras2,
    needs_keras3,
    raw,
    wrapped,
)

pytestmark = pytest.mark.core

NAN, INF = float("nan"), float("inf")


def attributes_of(inner):
    """What an optimizer holds: the identity of each attribute, each variable's value."""
    variables = inner.variables() if callable(inner.variables) else inner.variables
    return (
        {name: id(value) for name, value in vars(inner).items()},
        [copies(variable) for variable in variables],
    )


def state_of(optimizer, *model_variables):
    """The numbers that a refused call must not change."""
    return [
        np.asarray(copies(variable)).tolist()
        for variable in (
            *optimizer.weights,
            optimizer.loss_scale_state._current_loss_scale,
            optimizer.loss_scale_state._num_good_steps,
            *model_variables,
        )
    ]


@contextlib.contextmanager
def refuses(error, *words):
    """Expects an error whose message has all of `words`."""
    with pytest.raises(error) as caught:
        yield
    assert type(caught.value) is error
    message = str(caught.value)
    missing = [word for word in words if word not in message]
    assert not missing, f"{missing} not in: {message}"


# --- Arguments of the constructor.

DYNAMIC_NOT_A_BOOL = {
    "None": None,
    "int": 1,
    "zero": 0,
    "float": 128.0,
    "numpy_float": np.float32(128),
    "dynamic": "dynamic",
    "string": "true",
    "numpy_bool": np.True_,
    "tensor": tf.constant(True),
    "array": np.array([True, False]),
    "list": [True],
    "loss_scale": tf_lso.FixedLossScale(8),
}
DYNAMIC_MEANT = {
    "float": "dynamic=False, initial_scale=128.0",
    "dynamic": "LossScaleOptimizer(optimizer)",
}

NOT_POSITIVE = {
    "zero": 0,
    "negative": -2.0,
    "nan": NAN,
    "inf": INF,
    "minus_inf": -INF,
    "numpy_nan": np.float32(NAN),
    "no_float32": 1e39,
    "zero_in_float32": 1e-50,
    "huge_int": 10**400,
    "no_number": "abc",
}
NO_NUMBER = {
    "list": [2.0],
    "empty": [],
    "object": object(),
    "complex": 2j,
    "vector": np.array([1.0, 2.0]),
    "dict": {},
    "class": float,
}
NO_STEPS = {
    "zero": 0,
    "negative": -1,
    "fraction": 1.5,
    "below_one": 0.5,
    "nan": NAN,
    "inf": INF,
    "no_number": "x",
    "huge": 10**400,
}

# id -> (keyword arguments, error, words of the message)
ARGUMENTS = {
    **{
        f"dynamic-{key}": (
            {"dynamic": value},
            TypeError,
            ("'dynamic'", "bool", repr(value), DYNAMIC_MEANT.get(key, "")),
        )
        for key, value in DYNAMIC_NOT_A_BOOL.items()
    },
    **{
        f"{name}-{key}": ({name: value}, ValueError, (f"'{name}'", repr(value)))
        for name in ("initial_scale", "min_scale", "max_scale")
        for key, value in NOT_POSITIVE.items()
    },
    **{
        f"{name}-{key}": ({name: value}, TypeError, (f"'{name}'", repr(value)))
        for name in ("initial_scale", "min_scale", "max_scale", "dynamic_growth_steps")
        for key, value in NO_NUMBER.items()
    },
    "min_scale-None": ({"min_scale": None}, TypeError, ("'min_scale'", "None")),
    **{
        f"fixed_scale-{key}": (
            {"dynamic": False, "initial_scale": value},
            ValueError,
            ("'initial_scale'", repr(value)),
        )
        for key, value in NOT_POSITIVE.items()
    },
    **{
        f"growth_steps-{key}": (
            {"dynamic_growth_steps": value},
            ValueError,
            ("'dynamic_growth_steps'", repr(value)),
        )
        for key, value in NO_STEPS.items()
    },
    "min_above_max": (
        {"initial_scale": 2, "min_scale": 8, "max_scale": 4},
        ValueError,
        ("'min_scale'", "8", "'max_scale'", "4"),
    ),
    "growth_that_shrinks": (
        {"growth_factor": 0.5},
        ValueError,
        ("'growth_factor'", "at least 1", "0.5"),
    ),
    **{
        f"backoff_that_grows-{value}": (
            {"backoff_factor": value},
            ValueError,
            ("'backoff_factor'", "less than 1", str(value)),
        )
        for value in (1.0, 2)
    },
    "initial_above_max": (
        {"initial_scale": 16, "max_scale": 4},
        ValueError,
        ("'initial_scale'", "16", "'max_scale'", "4"),
    ),
    "default_above_max": (
        {"max_scale": 4},
        ValueError,
        ("'initial_scale'", "32768", "'max_scale'", "4"),
    ),
    "fixed-no_scale": (
        {"dynamic": False},
        ValueError,
        ("'initial_scale'", "must be specified", "'dynamic'", "None"),
    ),
    **{
        f"fixed-{name}": (
            {"dynamic": False, "initial_scale": 2, name: value},
            ValueError,
            (f"'{name}'", "must not be given", "'dynamic'", repr(value)),
        )
        for name, value in {
            "dynamic_growth_steps": 3,
            "min_scale": 0.5,
            "max_scale": 8.0,
        }.items()
    },
    "unknown": ({"initial_scal": 2}, TypeError, ("unexpected", "'initial_scal'")),
    "loss_scale": (
        {"loss_scale": "dynamic"},
        TypeError,
        ("'loss_scale'", "'dynamic'", "initial_scale"),
    ),
    "loss_scale-number": (
        {"loss_scale": 128},
        TypeError,
        ("'loss_scale'", "128", "dynamic=False, initial_scale="),
    ),
    **{
        f"base-{name}": (
            {name: value},
            ValueError,
            (f"'{name}'", repr(value), "on the inner optimizer"),
        )
        for name, value in {
            "weight_decay": 0.1,
            "clipnorm": 1.0,
            "clipvalue": 2.0,
            "global_clipnorm": 3.0,
            "use_ema": True,
            "ema_momentum": 0.5,
            "ema_overwrite_frequency": 7,
            "loss_scale_factor": 2.0,
            "gradient_accumulation_steps": 4,
        }.items()
    },
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_an_argument_is_refused_and_the_inner_optimizer_is_as_before(family, case):
    arguments, error, words = ARGUMENTS[case]
    inner = FAMILIES[family].SGD(0.1, momentum=0.9)
    before = attributes_of(inner)
    with refuses(error, *words):
        tf_lso.LossScaleOptimizer(inner, **arguments)
    assert attributes_of(inner) == before
    assert tf_lso.LossScaleOptimizer(inner).inner_optimizer is inner


@pytest.mark.parametrize(
    "arguments",
    [(1024.0,), ("dynamic",), (tf_lso.DynamicLossScale(),)],
    ids=["number", "dynamic", "object"],
)
def test_the_experimental_arguments_are_refused_with_what_was_meant(family, arguments):
    inner = FAMILIES[family].SGD()
    with refuses(TypeError, "'dynamic'", repr(arguments[0])):
        tf_lso.LossScaleOptimizer(inner, *arguments)
    tf_lso.LossScaleOptimizer(inner)


def test_keras3_base_arguments_are_accepted_at_their_defaults(family):
    defaults = {
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
    assert tf_lso.LossScaleOptimizer(FAMILIES[family].SGD(), **defaults).dynamic


def test_the_largest_number_of_growth_steps_never_grows(family):
    optimizer = wrapped(family, growth=sys.maxsize)
    x = tf.Variable(1.0)
    optimizer.minimize(lambda: 2.0 * x, [x])
    assert optimizer.dynamic_growth_steps == sys.maxsize
    assert float(optimizer.loss_scale) == 8.0


# --- What is wrapped.


def _function():
    """No optimizer."""


NO_OPTIMIZERS = {
    "None": lambda: None,
    "string": lambda: "sgd",
    "number": lambda: 1,
    "object": object,
    "dict": lambda: {"class_name": "SGD"},
    "list": lambda: [keras.optimizers.SGD()],
    "keras3_class": lambda: keras.optimizers.SGD,
    "tf_keras_class": lambda: keras2.optimizers.Adam,
    "function": lambda: _function,
    "v1": lambda: tf.compat.v1.train.GradientDescentOptimizer(0.1),
    "schedule": lambda: keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5),
    "layer": lambda: keras.layers.Dense(1),
    "variable": lambda: tf.Variable(1.0),
    "loss_scale": lambda: tf_lso.FixedLossScale(8),
    "own_class": lambda: tf_lso.LossScaleOptimizer,
}


@pytest.mark.parametrize("keyword", [False, True], ids=["positional", "keyword"])
@pytest.mark.parametrize("kind", NO_OPTIMIZERS)
def test_what_is_no_optimizer_is_refused(kind, keyword):
    value = NO_OPTIMIZERS[kind]()
    got = value if isinstance(value, type) else type(value)
    with refuses(TypeError, "'optimizer'", repr(value), got.__name__, "Pass"):
        if keyword:
            tf_lso.LossScaleOptimizer(inner_optimizer=value)
        else:
            tf_lso.LossScaleOptimizer(value)


def test_a_class_is_refused_with_the_way_to_make_an_instance():
    with refuses(TypeError, "Pass an instance: Adam(...)"):
        tf_lso.LossScaleOptimizer(keras.optimizers.Adam)


def test_no_optimizer_at_all_is_refused():
    with refuses(TypeError, "'optimizer'", "got 0"):
        tf_lso.LossScaleOptimizer()


def test_two_optimizers_are_refused(family):
    first, second = FAMILIES[family].SGD(), FAMILIES[family].SGD()
    before = attributes_of(first), attributes_of(second)
    with refuses(TypeError, "'optimizer'", "'inner_optimizer'", "got 2"):
        tf_lso.LossScaleOptimizer(first, inner_optimizer=second)
    assert (attributes_of(first), attributes_of(second)) == before


LOSS_SCALE_OPTIMIZERS = {
    **{f"tf_lso-{family}": functools.partial(wrapped, family) for family in FAMILIES},
    "tf_keras-legacy": lambda: keras2.mixed_precision.LossScaleOptimizer(
        keras2.optimizers.legacy.SGD()
    ),
    "tf_keras-new": lambda: keras2.mixed_precision.LossScaleOptimizer(
        keras2.optimizers.SGD()
    ),
}
if HAS_KERAS3:
    LOSS_SCALE_OPTIMIZERS["keras"] = lambda: keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD()
    )


@pytest.mark.parametrize("kind", LOSS_SCALE_OPTIMIZERS)
def test_a_loss_scale_optimizer_is_not_wrapped_again(kind):
    inner = LOSS_SCALE_OPTIMIZERS[kind]()
    before = vars(inner).copy()
    with refuses(TypeError, "optimizer", repr(inner), "`inner_optimizer`"):
        tf_lso.LossScaleOptimizer(inner)
    assert vars(inner) == before
    x = tf.Variable(1.0)
    inner.apply_gradients([(tf.constant(0.0), x)])
    assert float(x) == 1.0


def test_an_optimizer_is_wrapped_only_once(family):
    inner = FAMILIES[family].SGD(0.5)
    optimizer = tf_lso.LossScaleOptimizer(inner, initial_scale=4)
    before = attributes_of(inner)
    with refuses(ValueError, "'optimizer'", "already wrapped", repr(inner), "new one"):
        tf_lso.LossScaleOptimizer(inner)
    assert attributes_of(inner) == before
    x = tf.Variable(1.0)
    optimizer.minimize(lambda: 2.0 * x, [x])
    assert float(x) == 0.0


@pytest.mark.parametrize("family", ["legacy", "new"])
def test_an_optimizer_that_tf_keras_has_wrapped_is_refused(family):
    inner = FAMILIES[family].SGD()
    theirs = keras2.mixed_precision.LossScaleOptimizer(inner)
    before = attributes_of(inner)
    with refuses(ValueError, "'optimizer'", "already wrapped"):
        tf_lso.LossScaleOptimizer(inner)
    assert attributes_of(inner) == before
    assert theirs.inner_optimizer is inner


@pytest.mark.parametrize("family", ["legacy", "new"])
def test_tf_keras_refuses_what_tf_lso_has_wrapped(family):
    inner = FAMILIES[family].SGD()
    tf_lso.LossScaleOptimizer(inner)
    with pytest.raises(ValueError, match="already wrapped"):
        keras2.mixed_precision.LossScaleOptimizer(inner)


def test_an_inner_optimizer_that_cannot_leave_aggregation_to_the_caller_is_refused():
    class Closed(keras2.optimizers.legacy.SGD):
        def apply_gradients(self, grads_and_vars, name=None):
            return super().apply_gradients(grads_and_vars, name=name)

    inner = Closed(0.1)
    before = attributes_of(inner)
    with refuses(TypeError, "Closed", "'experimental_aggregate_gradients'", "Add"):
        tf_lso.LossScaleOptimizer(inner)
    assert attributes_of(inner) == before


# --- Gradients and variables.

G = tf.constant(1.0)

# id -> (call on an optimizer, model variables x and y, error, words of the message)
STEPS = {
    **{
        f"{many}_gradients_for_{few}": (
            lambda o, x, y, many=many, few=few: o.apply([G] * many, [x, y][:few]),
            ValueError,
            ("'grads'", f"{many} elements", f"{few} variables", "None"),
        )
        for many, few in [(1, 2), (2, 1), (0, 1)]
    },
    "apply-all_None": (
        lambda o, x, y: o.apply([None, None], [x, y]),
        ValueError,
        ("No gradients", "x:0", "y:0"),
    ),
    "all_None": (
        lambda o, x, y: o.apply_gradients([(None, x), (None, y)]),
        ValueError,
        ("No gradients", "x:0", "y:0", "GradientTape"),
    ),
    "independent_loss": (
        lambda o, x, y: o.minimize(lambda: y * 1.0, [x]),
        ValueError,
        ("No gradients", "x:0"),
    ),
    **{
        f"no_pair-{key}": (
            lambda o, x, y, value=value: o.apply_gradients([value]),
            ValueError,
            ("'grads_and_vars'", "pairs", f"element {value!r}", "zip("),
        )
        for key, value in {"gradient": G, "number": 3, "string": "gv"}.items()
    },
    "one_in_a_pair": (
        lambda o, x, y: o.apply_gradients([(G, x), (G,)]),
        ValueError,
        ("'grads_and_vars'", "pairs", repr((G,))),
    ),
    "three_in_a_pair": (
        lambda o, x, y: o.apply_gradients([(G, x, 1)]),
        ValueError,
        ("'grads_and_vars'", "pairs"),
    ),
    "not_iterable": (
        lambda o, x, y: o.apply_gradients(3),
        TypeError,
        ("'grads_and_vars'", "3"),
    ),
    "pairs_None": (
        lambda o, x, y: o.apply_gradients(None),
        TypeError,
        ("'grads_and_vars'", "None"),
    ),
    "apply-not_iterable": (lambda o, x, y: o.apply(3, [x]), TypeError, ("'grads'",)),
    "tensor_as_variable": (
        lambda o, x, y: o.apply_gradients([(G, x), (G, G)]),
        TypeError,
        ("variables", repr(G), "EagerTensor"),
    ),
    **{
        f"as_variable-{key}": (
            lambda o, x, y, value=value: o.apply_gradients([(G, value)]),
            TypeError,
            ("variables", repr(value), key),
        )
        for key, value in {"ndarray": np.ones(()), "int": 3, "NoneType": None}.items()
    },
    **{
        f"{name}-no_tape": (
            lambda o, x, y, name=name: getattr(o, name)(x * 2.0, [x]),
            ValueError,
            ("`tape`", "loss", "GradientTape"),
        )
        for name in ("minimize", "compute_gradients")
    },
    "minimize-number": (
        lambda o, x, y: o.minimize(lambda: 3.0, [x]),
        TypeError,
        ("'loss'", "3.0", "tensor"),
    ),
    **{
        f"loss-{type(value).__name__}": (
            lambda o, x, y, value=value: o.get_scaled_loss(value),
            TypeError,
            ("'loss'", repr(value), "tf.convert_to_tensor"),
        )
        for value in (3.0, None, [G], "x")
    },
    "loss-callable-float": (
        lambda o, x, y: o.get_scaled_loss(lambda: 3.0)(),
        TypeError,
        ("'loss'", "3.0", "tensor"),
    ),
    "unscale-None": (
        lambda o, x, y: o.get_unscaled_gradients(None),
        TypeError,
        ("'grads'", "None"),
    ),
    "weights-too_few": (
        lambda o, x, y: o.set_weights(o.get_weights()[:1]),
        ValueError,
        ("'weights'", "1 arrays", "without the loss scale"),
    ),
    "weights-too_many": (
        lambda o, x, y: o.set_weights([*o.get_weights(), 1.0]),
        ValueError,
        ("'weights'", "arrays", "without the loss scale"),
    ),
    "weights-shape_of_the_last": (
        lambda o, x, y: o.set_weights([*o.get_weights()[:-1], np.ones(3)]),
        ValueError,
        ("good_steps", "(3,)", "()"),
    ),
    "weights-None": (
        lambda o, x, y: o.set_weights(None),
        TypeError,
        ("'weights'", "None"),
    ),
    "stateless_apply": (
        lambda o, x, y: o.stateless_apply([], [G], [x]),
        ValueError,
        ("stateless_apply", "TensorFlow", "apply"),
    ),
}


@pytest.mark.parametrize("case", STEPS)
def test_a_call_is_refused_and_all_state_is_as_before(family, case):
    call, error, words = STEPS[case]
    optimizer = wrapped(family, momentum=0.9)
    x, y = tf.Variable(1.0, name="x"), tf.Variable(1.0, name="y")
    optimizer.minimize(lambda: 0.0 * x, [x])
    before = state_of(optimizer, x, y)
    with refuses(error, *words):
        call(optimizer, x, y)
    assert state_of(optimizer, x, y) == before
    optimizer.minimize(lambda: 2.0 * x, [x])
    assert float(x) == pytest.approx(0.8)


def test_set_weights_sets_nothing_where_a_later_array_is_no_number(family):
    optimizer = wrapped(family, momentum=0.9)
    x = tf.Variable(1.0)
    optimizer.minimize(lambda: 2.0 * x, [x])
    before = state_of(optimizer, x)
    weights = [np.full(w.shape, 5) for w in optimizer.get_weights()]
    with pytest.raises((TypeError, ValueError), match=r"weights|array"):
        optimizer.set_weights([*weights[:-2], "scale", weights[-1]])
    assert state_of(optimizer, x) == before


@pytest.mark.parametrize("call", ["get_scaled_loss", "scale_loss"])
def test_a_refused_loss_leaves_the_step_unscaled(family, call):
    optimizer = wrapped(family)
    x = tf.Variable(1.0)
    with pytest.raises((TypeError, ValueError, tf.errors.OpError)):
        getattr(optimizer, call)(tf.constant("text"))
    other = {"get_scaled_loss": "scale_loss", "scale_loss": "get_scaled_loss"}[call]
    assert float(getattr(optimizer, other)(tf.constant(1.0))) == 8.0
    assert float(x) == 1.0


@pytest.mark.parametrize("family", ["keras3", "new"])
@pytest.mark.parametrize("call", ["apply_gradients", "apply", "beside_a_known_one"])
def test_an_unknown_variable_is_refused(family, call):
    optimizer = wrapped(family, momentum=0.9)
    x, y = tf.Variable(1.0, name="known"), tf.Variable(1.0, name="stranger")
    optimizer.apply_gradients([(G, x)])
    before = state_of(optimizer, x, y)
    said = ("Unknown variables", "stranger", "build(all_variables)", "legacy class")
    with refuses(ValueError, *said):
        if call == "apply":
            optimizer.apply([G], [y])
        elif call == "apply_gradients":
            optimizer.apply_gradients([(G, y)])
        else:
            optimizer.apply_gradients([(G, x), (G, y)])
    assert state_of(optimizer, x, y) == before


def test_apply_needs_variables_until_the_optimizer_is_built(family):
    optimizer = wrapped(family)
    with refuses(ValueError, "'trainable_variables'", "build("):
        optimizer.apply([G])
    assert int(copies(optimizer.iterations)[0]) == 0


def test_gradients_are_still_unscaled_once_after_a_refused_apply(family):
    optimizer = wrapped(family)
    x = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        scaled = optimizer.scale_loss(2.0 * x)
    gradient = tape.gradient(scaled, x)
    with pytest.raises(ValueError, match="elements"):
        optimizer.apply([gradient, gradient], [x])
    with pytest.raises(ValueError, match="pairs"):
        optimizer.apply_gradients([gradient])
    optimizer.apply([gradient], [x])
    assert float(x) == pytest.approx(0.8)


# --- Both protocols on one loss.

PROTOCOLS = ["get_scaled_loss", "scale_loss"]


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
@pytest.mark.parametrize("first", PROTOCOLS)
def test_both_protocols_on_one_loss_are_refused(family, first, traced):
    second = next(name for name in PROTOCOLS if name != first)
    optimizer = wrapped(family)
    x = tf.Variable(1.0)

    def step():
        with tf.GradientTape() as tape:
            loss = getattr(optimizer, first)(2.0 * x)
            loss = getattr(optimizer, second)(loss)
        optimizer.apply_gradients([(tape.gradient(loss, x), x)])

    before = state_of(optimizer, x)
    with refuses(RuntimeError, f"{second}()", f"{first}()", "twice", "scale_loss()"):
        tf.function(step, autograph=False)() if traced else step()
    assert state_of(optimizer, x) == before


@pytest.mark.parametrize("first", PROTOCOLS)
def test_both_protocols_on_two_losses_of_one_step_are_refused(family, first):
    second = next(name for name in PROTOCOLS if name != first)
    optimizer = wrapped(family)
    getattr(optimizer, first)(tf.constant(1.0))
    with refuses(RuntimeError, f"{second}()", f"{first}()"):
        getattr(optimizer, second)(tf.constant(2.0))


# --- Strategies.


class UnheardOfStrategy(tf.distribute.Strategy):
    """A strategy that tf_lso does not know, on one device."""

    def __init__(self):
        super().__init__(one_device_strategy.OneDeviceExtended(self, "/cpu:0"))


STRATEGIES = {
    "CentralStorageStrategy": lambda: tf.distribute.experimental.CentralStorageStrategy(
        ["CPU:0", "CPU:1"]
    ),
    "UnheardOfStrategy": UnheardOfStrategy,
}


@pytest.mark.parametrize("kind", STRATEGIES)
def test_the_constructor_refuses_an_unsupported_strategy(family, kind):
    strategy = STRATEGIES[kind]()
    inner = FAMILIES[family].SGD(0.1)
    before = attributes_of(inner)
    with strategy.scope(), refuses(ValueError, kind, "not supported", "Mirrored"):
        tf_lso.LossScaleOptimizer(inner)
    assert attributes_of(inner) == before
    tf_lso.LossScaleOptimizer(inner)


@pytest.mark.parametrize("kind", STRATEGIES)
def test_a_step_under_an_unsupported_strategy_is_refused(family, kind):
    strategy = STRATEGIES[kind]()
    optimizer = wrapped(family)
    x = tf.Variable(1.0)
    before = state_of(optimizer, x)
    with refuses(ValueError, kind, "not supported", "Mirrored"):
        strategy.run(lambda: optimizer.apply_gradients([(G, x)]))
    assert state_of(optimizer, x) == before


V1_STRATEGIES = {
    "OneDevice": lambda: tf.compat.v1.distribute.OneDeviceStrategy("CPU:0"),
    "MultiWorkerMirrored": (
        tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy
    ),
}


@pytest.mark.parametrize("kind", V1_STRATEGIES)
def test_a_supported_strategy_may_be_that_of_compat_v1(family, kind):
    strategy = V1_STRATEGIES[kind]()
    with strategy.scope():
        x = tf.Variable(1.0)
        optimizer = wrapped(family)

    @tf.function
    def train():
        strategy.run(lambda: optimizer.apply_gradients([(G, x)]))

    before = state_of(optimizer, x)
    train()
    assert state_of(optimizer, x) != before


CALLS = {
    "apply_gradients": lambda o, x: o.apply_gradients([(G, x)]),
    "apply": lambda o, x: o.apply([G], [x]),
    "minimize": lambda o, x: o.minimize(lambda: 2.0 * x, [x]),
    "nothing_to_apply": lambda o, x: o.apply_gradients([]),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_step_in_cross_replica_context_is_refused(family, mirrored2, call):
    with mirrored2.scope():
        optimizer = wrapped(family)
        x = tf.Variable(1.0)
        before = state_of(optimizer, x)
        with refuses(ValueError, "replica context", "Strategy.run"):
            CALLS[call](optimizer, x)
    assert state_of(optimizer, x) == before


def test_a_model_variable_made_outside_the_scope_is_refused(family, mirrored2):
    stray = tf.Variable(1.0, name="stray")
    with mirrored2.scope():
        optimizer = wrapped(family)
        x = tf.Variable(1.0)
    before = state_of(optimizer, x, stray)
    with refuses(ValueError, "stray", "outside the scope", "strategy.scope()"):
        mirrored2.run(
            tf.function(lambda: optimizer.apply_gradients([(G * 1, x), (G * 1, stray)]))
        )
    assert state_of(optimizer, x, stray) == before


@needs_keras3
def test_slots_made_outside_the_scope_are_refused(mirrored2):
    with mirrored2.scope():
        x = tf.Variable(1.0, name="x")
    inner = keras.optimizers.SGD(0.1, momentum=0.9)
    inner.build([x])
    optimizer = tf_lso.LossScaleOptimizer(inner)
    before = state_of(optimizer, x)
    with refuses(ValueError, "momentum", "outside the scope", "strategy.scope()"):
        mirrored2.run(tf.function(lambda: optimizer.apply_gradients([(G * 1, x)])))
    assert state_of(optimizer, x) == before


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("gradient_accumulation_steps", "in the training loop"),
        ("ema_overwrite_frequency", "finalize"),
    ],
)
@needs_keras3
def test_what_keras_3_cannot_do_on_replicas_is_refused(mirrored2, name, remedy):
    with mirrored2.scope():
        averages = name.startswith("ema")
        optimizer = wrapped("keras3", use_ema=averages, **{name: 2})
        x = tf.Variable(1.0)
    before = state_of(optimizer, x)
    with refuses(ValueError, f"{name}=2", "2 replicas", remedy):
        mirrored2.run(tf.function(lambda: optimizer.apply_gradients([(G * 1, x)])))
    assert state_of(optimizer, x) == before


@needs_keras3
def test_averages_overwrite_the_weights_in_the_scope_instead(mirrored2):
    """What the refusal above says to do."""
    with mirrored2.scope():
        optimizer = wrapped("keras3", use_ema=True, ema_momentum=0.5)
        x = tf.Variable(1.0)
    for _ in range(2):
        mirrored2.run(tf.function(lambda: optimizer.apply_gradients([(G * 1, x)])))
    last = float(x.numpy())
    with mirrored2.scope():
        optimizer.finalize_variable_values([x])
    assert float(x.numpy()) != last


# --- Attributes.


@pytest.mark.parametrize("family", ["keras3", "new"])
def test_a_decay_that_the_optimizer_does_not_have_is_refused(family):
    optimizer = wrapped(family)
    before = attributes_of(optimizer.inner_optimizer)
    with refuses(ValueError, "'decay'", "0.5", "InverseTimeDecay"):
        optimizer.decay = 0.5
    assert attributes_of(optimizer.inner_optimizer) == before
    assert optimizer.decay == 0.0
    optimizer.decay = 0.0


@pytest.mark.parametrize(
    "name", ["weight_decay", "use_ema", "ema_momentum", "ema_overwrite_frequency"]
)
def test_what_the_legacy_optimizer_does_not_have_is_not_set(name):
    optimizer = wrapped("legacy")
    before = attributes_of(optimizer.inner_optimizer)
    with refuses(AttributeError, f"'{name}'", "0.5", "SGD"):
        setattr(optimizer, name, 0.5)
    assert attributes_of(optimizer.inner_optimizer) == before
    assert not hasattr(optimizer, name)


# --- The loss scales.

LOSS_SCALES = {
    **{
        f"fixed-{key}": (
            lambda value=value: tf_lso.FixedLossScale(value),
            ValueError,
            ("loss_scale_value", repr(value)),
        )
        for key, value in {
            "below_one": 0.5,
            "zero": 0,
            "negative": -1.0,
            "nan": NAN,
            "inf": INF,
            "no_float32": 1e39,
            "huge": 10**400,
            "string": "128",
            "dynamic": "dynamic",
            "None": None,
            "list": [128.0],
            "tensor": tf.constant(128.0),
        }.items()
    },
    **{
        f"dynamic-{name}-{key}": (
            lambda name=name, value=value: tf_lso.DynamicLossScale(**{name: value}),
            ValueError,
            (f"'{name}'", repr(value)),
        )
        for name in ("initial_loss_scale", "multiplier", "min_loss_scale")
        for key, value in NOT_POSITIVE.items()
    },
    **{
        f"dynamic-increment_period-{key}": (
            lambda value=value: tf_lso.DynamicLossScale(increment_period=value),
            ValueError,
            ("'increment_period'", repr(value)),
        )
        for key, value in NO_STEPS.items()
    },
    "dynamic-list": (
        lambda: tf_lso.DynamicLossScale([2.0]),
        TypeError,
        ("'initial_loss_scale'", "[2.0]"),
    ),
    "dynamic-initial_above_max": (
        lambda: tf_lso.DynamicLossScale(16, max_loss_scale=8),
        ValueError,
        ("'initial_loss_scale'", "16", "'max_loss_scale'", "8"),
    ),
    "dynamic-min_above_max": (
        lambda: tf_lso.DynamicLossScale(2, min_loss_scale=9, max_loss_scale=8),
        ValueError,
        ("'min_loss_scale'", "9", "'max_loss_scale'", "8"),
    ),
}


@pytest.mark.parametrize("case", LOSS_SCALES)
def test_a_loss_scale_refuses(case):
    make, error, words = LOSS_SCALES[case]
    with refuses(error, *words):
        make()


def test_the_base_class_of_the_loss_scales_makes_no_instance():
    with pytest.raises(TypeError, match="abstract"):
        tf_lso.LossScale()


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


def test_a_state_of_a_loss_scale_of_the_program_s_own():
    """NeurST and others of 2020 derived it from a private class of TensorFlow."""

    class Revised:
        def update(self, gradients):
            return None, True

    optimizer = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.5))
    with pytest.raises(TypeError, match=r"must be a tf_lso\.LossScale"):
        optimizer._loss_scale = Revised()
