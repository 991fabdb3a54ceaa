"""Replays the short recorded cases: values, single steps, validation.

Each function takes (wrap, family, case) and returns what the record holds for the case:
{"ok": ...}, or {"error": type} where it raised.
"""

import numpy as np
import tensorflow as tf

from tests.families import FAMILIES
from tests.golden import harness
from tests.golden.harness import encode

NAN = float("nan")
INF = float("inf")


def recorded(value):
    """Return a recorded value as `encode` gives it: floats, no types of tensors."""
    if isinstance(value, dict):
        return {k: recorded(v) for k, v in value.items() if k != "t"}
    if isinstance(value, list):
        return [recorded(element) for element in value]
    return float(value) if value in ("nan", "inf", "-inf") else value


def attempt(function):
    """{"ok": encoded result}, or {"error": type of the exception, "message": text}."""
    try:
        return {"ok": encode(function())}
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)}


def without(value, *names):
    """Return an encoded value without the entries of these names, at any depth."""
    if isinstance(value, dict):
        return {k: without(v, *names) for k, v in value.items() if k not in names}
    if isinstance(value, list):
        return [without(element, *names) for element in value]
    return value


def equal(actual, expected, exact=True, tolerance=harness.TOLERANCE):
    """Whether two encoded values are the same; nan equals nan.

    Texts of errors are left out. Unless `exact`, floats may differ by `tolerance`: as
    far as kernels of other versions make them.
    """
    if isinstance(actual, dict) and isinstance(expected, dict):
        keys = (actual.keys() | expected.keys()) - {"message"}
        return all(
            key in actual
            and key in expected
            and equal(actual[key], expected[key], exact, tolerance)
            for key in keys
        )
    if isinstance(actual, list) and isinstance(expected, list):
        return len(actual) == len(expected) and all(
            equal(a, e, exact, tolerance) for a, e in zip(actual, expected)
        )
    if isinstance(actual, float) and isinstance(expected, float):
        tolerance = {"rtol": 0, "atol": 0} if exact else tolerance
        return np.isclose(actual, expected, equal_nan=True, **tolerance)
    return actual == expected


# --- scaled_loss

LOSSES = {
    "tensor_f32": lambda: tf.constant(1.5),
    "tensor_f16": lambda: tf.constant(1.5, tf.float16),
    "tensor_bf16": lambda: tf.constant(1.5, tf.bfloat16),
    "tensor_f64": lambda: tf.constant(1.1, tf.float64),
    "tensor_i32": lambda: tf.constant(2),
    "vector_f32": lambda: tf.constant([1.0, 2.0]),
    "f16_overflow": lambda: tf.constant(60000.0, tf.float16),
    "variable": lambda: tf.Variable(1.5),
    "numpy_f32": lambda: np.float32(1.5),
    "numpy_f64": lambda: np.array([1.5]),
    "py_float": lambda: 1.5,
    "py_int": lambda: 1,
    "none": lambda: None,
    "list": lambda: [tf.constant(1.5)],
}
CALLABLES = {
    "callable_f32": lambda: tf.constant(1.5),
    "callable_f16": lambda: tf.constant(1.5, tf.float16),
    "callable_pyfloat": lambda: 1.5,
}


def scaled_loss(wrap, family, case):
    """get_scaled_loss of every kind of loss."""
    name = case["case"]
    inner = harness.inner_optimizer(family, "SGD")
    if name == "callable_reads_scale_when":
        return attempt(lambda: _scale_is_read_when_called(wrap(inner, scale=8.0)))
    optimizer = wrap(inner, case["kind"], case["scale"])
    scaled = optimizer.get_scaled_loss
    if name == "callable_type":
        return attempt(
            lambda: {"callable": callable(scaled(CALLABLES["callable_f32"]))}
        )
    if name == "in_function":
        return attempt(lambda: tf.function(scaled)(LOSSES["tensor_f16"]()))
    if name in CALLABLES:
        return attempt(lambda: scaled(CALLABLES[name])())
    return attempt(lambda: scaled(LOSSES[name]()))


def _scale_is_read_when_called(optimizer):
    loss = optimizer.get_scaled_loss(lambda: tf.constant(1.0))
    before = float(loss())
    optimizer.apply_gradients([(tf.constant(NAN), tf.Variable(1.0))])
    return {
        "before": before,
        "after_scale_halved": float(loss()),
        "loss_scale": float(optimizer.loss_scale),
    }


# --- unscaled_gradients


def _slices(dtype=tf.float32, shape=(4,)):
    return tf.IndexedSlices(
        tf.constant([1.0, 2.0], dtype),
        tf.constant([0, 2]),
        None if shape is None else tf.constant(shape),
    )


SIX = [6.0]
GRADIENTS = {
    "f32": lambda: [tf.constant(6.0)],
    "f16": lambda: [tf.constant(6.0, tf.float16)],
    "f64": lambda: [tf.constant(6.1, tf.float64)],
    "none": lambda: [None],
    "none_mixed": lambda: [None, tf.constant(6.0), None],
    "empty": lambda: [],
    "tuple": lambda: (tf.constant(6.0), None),
    "generator": lambda: (tf.constant(value) for value in SIX),
    "slices_f32": lambda: [_slices()],
    "slices_f16": lambda: [_slices(tf.float16)],
    "slices_no_dense_shape": lambda: [_slices(shape=None)],
    "inf_nan": lambda: [tf.constant([INF, NAN, -INF, 1.0])],
    "single_tensor": lambda: tf.constant([6.0, 12.0]),
    "numpy": lambda: [np.array(SIX, np.float32)],
    "pyfloat": lambda: [6.0],
    "nested": lambda: [[tf.constant(6.0)]],
    "int32": lambda: [tf.constant(6)],
    "tiny_f16": lambda: [tf.constant(6e-5, tf.float16)],
    "awkward_f32": lambda: [tf.constant([0.1, 0.7, 1e-7, 12345.678])],
    "awkward_f16": lambda: [tf.constant([0.1, 0.7, 3.3], tf.float16)],
    "dict": lambda: {"a": tf.constant(6.0)},
}


def unscaled_gradients(wrap, family, case):
    """get_unscaled_gradients of every kind of gradient."""
    inner = harness.inner_optimizer(family, "SGD")
    optimizer = wrap(inner, case["kind"], case["scale"])
    gradients = GRADIENTS[case["case"]]()
    return attempt(lambda: optimizer.get_unscaled_gradients(gradients))


# --- sparse_and_half


def sparse_and_half(wrap, family, case):
    """Steps with slices, float16 variables, missing gradients and other arguments."""
    optimizer = wrap(harness.inner_optimizer(family, case["inner"]))
    return attempt(lambda: _STEPS[case["case"]](optimizer, family))


def _sparse(optimizer, family):
    variable = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    rows = []
    for factor in (0.5, 0.5, NAN, 0.5, 0.5, NAN, 0.5, 0.5):
        with tf.GradientTape() as tape:
            loss = factor * tf.reduce_sum(tf.gather(variable, [0, 2, 0]))
            loss = optimizer.get_scaled_loss(loss)
        gradients = tape.gradient(loss, [variable])
        gradients = optimizer.get_unscaled_gradients(gradients)
        optimizer.apply_gradients(zip(gradients, [variable]))
        row = harness.state(optimizer, family, [variable])
        rows.append({"grad_type": type(gradients[0]).__name__, **row})
    return rows


def _half(optimizer, family):
    variable = tf.Variable([1.0, 2.0], dtype=tf.float16)
    rows = []
    for factor in (0.5, 0.5, NAN, 0.5, 0.5, 0.5):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variable * tf.constant(factor, tf.float16))
            loss = optimizer.get_scaled_loss(loss)
        gradients = tape.gradient(loss, [variable])
        gradients = optimizer.get_unscaled_gradients(gradients)
        optimizer.apply_gradients(zip(gradients, [variable]))
        row = harness.state(optimizer, family, [variable])
        dtypes = {
            "loss_dtype": loss.dtype.name,
            "grad_dtype": gradients[0].dtype.name,
        }
        rows.append({**dtypes, **row})
    return rows


def _some_none(optimizer, family):
    variables = [tf.Variable(1.0), tf.Variable(2.0)]
    rows = []
    for gradient in (0.5, NAN, 0.5, 0.5):
        pairs = zip([tf.constant(gradient), None], variables)
        returned = encode(optimizer.apply_gradients(pairs))
        rows.append({"ret": returned, **harness.state(optimizer, family, variables)})
    return rows


def _all_none(optimizer, family):
    variable = tf.Variable(1.0)
    calls = [
        attempt(lambda: optimizer.apply_gradients([(None, variable)])) for _ in range(3)
    ]
    return {"calls": calls, "state": harness.state(optimizer, family, [variable])}


def _empty(optimizer, family):
    calls = [attempt(lambda: optimizer.apply_gradients([])) for _ in range(2)]
    return {"calls": calls, "state": harness.state(optimizer, family, [])}


def _generator_arg(optimizer, family):
    variable = tf.Variable(1.0)
    pairs = ((tf.constant(0.5), v) for v in [variable])
    returned = encode(optimizer.apply_gradients(pairs))
    return {"ret": returned, "state": harness.state(optimizer, family, [variable])}


def _name_kwarg(optimizer, family):
    variable = tf.Variable(1.0)

    def call(*args, **kwargs):
        pairs = [(tf.constant(0.5), variable)]
        return attempt(lambda: optimizer.apply_gradients(pairs, *args, **kwargs))

    calls = [
        call(name="step"),
        call("step"),
        call(experimental_aggregate_gradients=True),
        call(skip_gradients_aggregation=False),
        call(bogus=1),
    ]
    return {"calls": calls, "state": harness.state(optimizer, family, [variable])}


_STEPS = {
    "sparse": _sparse,
    "half": _half,
    "some_none": _some_none,
    "all_none": _all_none,
    "empty": _empty,
    "generator_arg": _generator_arg,
    "name_kwarg": _name_kwarg,
}


# --- minimize_variants


def minimize_variants(wrap, family, case):
    """minimize, and what TensorFlow 2.0-2.15 had beside it."""
    inner = harness.inner_optimizer(family, "SGD", "sgd_plain")
    optimizer = wrap(inner)
    variable = tf.Variable(1.0)
    return attempt(lambda: _MINIMIZE[case["case"]](optimizer, family, variable))


def _minimized(*arguments, **keywords):
    """A case that calls minimize once; callables get the variable."""

    def run(optimizer, family, variable):
        args = [argument(variable) for argument in arguments]
        returned = encode(optimizer.minimize(*args, **keywords))
        return {"ret": returned, "state": harness.state(optimizer, family, [variable])}

    return run


def _loss_fn(variable):
    return lambda: 2.0 * variable


def _tensor_tape(optimizer, family, variable):
    with tf.GradientTape() as tape:
        loss = 2.0 * variable
    returned = encode(optimizer.minimize(loss, [variable], tape=tape))
    return {"ret": returned, "state": harness.state(optimizer, family, [variable])}


def _function(optimizer, family, variable):
    trace = []

    @tf.function
    def step():
        trace.append(encode(optimizer.minimize(_loss_fn(variable), [variable])))

    for _ in range(3):
        step()
    return {"trace": trace, "state": harness.state(optimizer, family, [variable])}


def _unconnected(optimizer, family, variable):
    other = tf.Variable(1.0)
    call = attempt(lambda: optimizer.minimize(_loss_fn(variable), [other]))
    return {"call": call, "state": harness.state(optimizer, family, [variable, other])}


def _compute_gradients(optimizer, family, variable):
    del family
    outcomes = {}
    for name in ("_compute_gradients", "compute_gradients"):
        method = getattr(optimizer, name, None)
        outcomes[name] = (
            "absent"
            if method is None
            else attempt(lambda m=method: m(_loss_fn(variable), [variable]))
        )
    return outcomes


def _get_gradients(optimizer, family, variable):
    del family
    get_gradients = optimizer.get_gradients
    return {"eager": attempt(lambda: get_gradients(2.0 * variable, [variable]))}


def _get_gradients_fn(optimizer, family, variable):
    del family
    trace = []

    @tf.function
    def gradients():
        result = optimizer.get_gradients(2.0 * variable, [variable])
        trace.append(encode(result))
        return result[0]

    return {"value": encode(gradients()), "trace": trace}


def _get_updates_fn(optimizer, family, variable):
    trace = []

    @tf.function
    def step():
        trace.append(encode(optimizer.get_updates(2.0 * variable, [variable])))

    step()
    return {"trace": trace, "state": harness.state(optimizer, family, [variable])}


_MINIMIZE = {
    "c_list": _minimized(_loss_fn, lambda v: [v]),
    "c_single": _minimized(_loss_fn, lambda v: v),
    "c_callable_vars": _minimized(_loss_fn, lambda v: lambda: [v]),
    "c_tensor_no_tape": _minimized(lambda v: 2.0 * v, lambda v: [v]),
    "c_tensor_tape": _tensor_tape,
    "c_grad_loss": _minimized(_loss_fn, lambda v: [v], grad_loss=tf.constant(3.0)),
    "c_f16_loss": _minimized(
        lambda v: lambda: tf.cast(2.0 * v, tf.float16), lambda v: [v]
    ),
    "c_function": _function,
    "c_nan": _minimized(lambda v: lambda: NAN * v, lambda v: [v]),
    "c_unconnected": _unconnected,
    "c_compute_gradients": _compute_gradients,
    "c_get_gradients": _get_gradients,
    "c_get_gradients_fn": _get_gradients_fn,
    "c_get_updates_fn": _get_updates_fn,
}


# --- floor_and_overflow

PATTERN = {"g": 0.5, "n": NAN, "i": INF}


def python_value(text):
    """The argument that the record names by its `repr`."""
    return eval(text, {"np": np, "inf": INF, "nan": NAN})


def floor_and_overflow(wrap, family, case):
    """Scales at the floor and at the largest float32, and arguments of odd types."""
    inner = harness.inner_optimizer(family, "SGD", "sgd_plain")
    arguments = [python_value(case[key]) for key in ("scale", "growth")]
    return attempt(lambda: _rows(wrap(inner, "dynamic", *arguments), case["pattern"]))


def _rows(optimizer, pattern):
    variable = tf.Variable(1.0)

    def scale_and_counter():
        return [float(optimizer.loss_scale), int(optimizer.dynamic_counter.numpy())]

    rows = [[*scale_and_counter(), None, None]]
    for letter in pattern:
        optimizer.apply_gradients([(tf.constant(PATTERN[letter]), variable)])
        progress = [float(variable.numpy()), int(optimizer.iterations.numpy())]
        rows.append([*scale_and_counter(), *progress])
    return {
        "growth": optimizer.dynamic_growth_steps,
        "initial_scale": optimizer.initial_scale,
        "rows": rows,
    }


# --- extras


def extras(wrap, family, case):
    """Gradient transformers and aggregators of OptimizerV2."""
    seen = []

    def halve(pairs):
        pairs = list(pairs)
        seen.append([float(gradient) for gradient, _ in pairs])
        return [(gradient / 2.0, variable) for gradient, variable in pairs]

    def run():
        arguments = {
            "gradient_transformers": {"gradient_transformers": [halve]},
            "gradient_aggregator": {"gradient_aggregator": halve},
        }[case["case"]]
        optimizer = wrap(FAMILIES[family].SGD(0.1, **arguments))
        if case["case"] == "gradient_transformers":
            steps = [(1.0, {}), (NAN, {}), (1.0, {})]
            name = "seen_by_transformer"
        else:
            steps = [(1.0, {}), (1.0, {"experimental_aggregate_gradients": False})]
            name = "seen_by_aggregator"
        variable = tf.Variable(1.0)
        rows = []
        for gradient, keywords in steps:
            optimizer.apply_gradients([(tf.constant(gradient), variable)], **keywords)
            row = harness.state(optimizer, family, [variable])
            rows.append({key: row[key] for key in row if key != "slots"})
        return {"rows": rows, name: seen}

    return attempt(run)


REPLAYS = {
    "scaled_loss": scaled_loss,
    "unscaled_gradients": unscaled_gradients,
    "sparse_and_half": sparse_and_half,
    "minimize_variants": minimize_variants,
    "floor_and_overflow": floor_and_overflow,
    "extras": extras,
}
