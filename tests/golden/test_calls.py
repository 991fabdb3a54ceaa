"""Replay the short cases of `golden.json.gz`: scaled values, single steps and odd arguments."""

import numpy as np
import pytest
import tensorflow as tf

from tests.families import CURRENT, FAMILIES, here
from tests.golden import harness
from tests.golden.comparing import (
    BOOL_IN_GRAPH,
    FLOAT_IN_GRAPH,
    Section,
    check_all,
    float32,
    grouped,
    where,
)
from tests.golden.encoding import ANYTHING, INF, NAN, attempt, encode, equal, without
from tests.golden.harness import apply, state, wrapped


def slices(values=(1.0, 2.0), shape=(4,), dtype=tf.float32):
    """Return IndexedSlices for the rows 0 and 2, without a dense shape if `shape` is None."""
    shape = None if shape is None else tf.constant(shape)
    return tf.IndexedSlices(tf.constant(values, dtype), tf.constant([0, 2]), shape)


# --- The section `scaled_loss`. Maps the name of a case to a function that returns the loss.

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

# Cases with a loss that is callable: functions of the bound method `get_scaled_loss`.
CALLABLE_LOSSES = {
    "callable_f32": lambda scaled: scaled(LOSSES["tensor_f32"])(),
    "callable_f16": lambda scaled: scaled(LOSSES["tensor_f16"])(),
    "callable_pyfloat": lambda scaled: scaled(LOSSES["py_float"])(),
    "callable_type": lambda scaled: {"callable": callable(scaled(lambda: 1.5))},
    "in_function": lambda scaled: tf.function(scaled)(LOSSES["tensor_f16"]()),
}


def scaled_loss(api, family, case):
    name = case["case"]
    if name == "callable_reads_scale_when":
        return _scale_is_read_when_called(wrapped(api, family, scale=8.0))
    optimizer = wrapped(api, family, kind=case["kind"], scale=case["scale"])
    if name in CALLABLE_LOSSES:
        return CALLABLE_LOSSES[name](optimizer.get_scaled_loss)
    return optimizer.get_scaled_loss(LOSSES[name]())


def _scale_is_read_when_called(optimizer):
    loss = optimizer.get_scaled_loss(lambda: tf.constant(1.0))
    before = float(loss())
    apply(optimizer, NAN, tf.Variable(1.0))
    return {
        "before": before,
        "after_scale_halved": float(loss()),
        "loss_scale": float(optimizer.loss_scale),
    }


# --- The section `unscaled_gradients`. Maps the name of a case to a function that returns the
# gradients.

GRADIENTS = {
    "f32": lambda: [tf.constant(6.0)],
    "f16": lambda: [tf.constant(6.0, tf.float16)],
    "f64": lambda: [tf.constant(6.1, tf.float64)],
    "none": lambda: [None],
    "none_mixed": lambda: [None, tf.constant(6.0), None],
    "empty": lambda: [],
    "tuple": lambda: (tf.constant(6.0), None),
    "generator": lambda: iter([tf.constant(6.0)]),
    "slices_f32": lambda: [slices()],
    "slices_f16": lambda: [slices(dtype=tf.float16)],
    "slices_no_dense_shape": lambda: [slices(shape=None)],
    "inf_nan": lambda: [tf.constant([INF, NAN, -INF, 1.0])],
    "single_tensor": lambda: tf.constant([6.0, 12.0]),
    "numpy": lambda: [np.array([6.0], np.float32)],
    "pyfloat": lambda: [6.0],
    "nested": lambda: [[tf.constant(6.0)]],
    "int32": lambda: [tf.constant(6)],
    "tiny_f16": lambda: [tf.constant(6e-5, tf.float16)],
    "awkward_f32": lambda: [tf.constant([0.1, 0.7, 1e-7, 12345.678])],
    "awkward_f16": lambda: [tf.constant([0.1, 0.7, 3.3], tf.float16)],
    "dict": lambda: {"a": tf.constant(6.0)},
}


def unscaled_gradients(api, family, case):
    optimizer = wrapped(api, family, kind=case["kind"], scale=case["scale"])
    return optimizer.get_unscaled_gradients(GRADIENTS[case["case"]]())


# --- The section `sparse_and_half`. Each case is a function of the optimizer.


def _sparse(optimizer):
    variable = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])

    def loss_fn(factor):
        return factor * tf.reduce_sum(tf.gather(variable, [0, 2, 0]))

    factors = (0.5, 0.5, NAN, 0.5, 0.5, NAN, 0.5, 0.5)
    return [
        {"grad_type": type(gradient).__name__, **state(optimizer, [variable])}
        for _, gradient in _tape_steps(optimizer, loss_fn, variable, factors)
    ]


def _float16(optimizer):
    variable = tf.Variable([1.0, 2.0], dtype=tf.float16)

    def loss_fn(factor):
        return tf.reduce_sum(variable * tf.constant(factor, tf.float16))

    rows = []
    factors = (0.5, 0.5, NAN, 0.5, 0.5, 0.5)
    for loss, gradient in _tape_steps(optimizer, loss_fn, variable, factors):
        dtypes = {"loss_dtype": loss.dtype.name, "grad_dtype": gradient.dtype.name}
        rows.append(dtypes | state(optimizer, [variable]))
    return rows


def _tape_steps(optimizer, loss_fn, variable, factors):
    """For each factor, take a step and yield the scaled loss and the unscaled gradient."""
    for factor in factors:
        with tf.GradientTape() as tape:
            loss = optimizer.get_scaled_loss(loss_fn(factor))
        (gradient,) = optimizer.get_unscaled_gradients(tape.gradient(loss, [variable]))
        optimizer.apply_gradients([(gradient, variable)])
        yield loss, gradient


def _some_none(optimizer):
    variables = [tf.Variable(1.0), tf.Variable(2.0)]
    rows = []
    for gradient in (0.5, NAN, 0.5, 0.5):
        pairs = zip([tf.constant(gradient), None], variables)
        returned = optimizer.apply_gradients(pairs)
        rows.append({"ret": encode(returned), **state(optimizer, variables)})
    return rows


def _all_none(optimizer):
    variable = tf.Variable(1.0)
    calls = [lambda: optimizer.apply_gradients([(None, variable)])] * 3
    return _outcomes(optimizer, calls, variable)


def _outcomes(optimizer, calls, *variables):
    outcomes = [attempt(call) for call in calls]
    return {"calls": outcomes, "state": state(optimizer, variables)}


def _generator_arg(optimizer):
    variable = tf.Variable(1.0)
    returned = optimizer.apply_gradients((tf.constant(0.5), v) for v in [variable])
    return {"ret": encode(returned), "state": state(optimizer, [variable])}


def _name_kwarg(optimizer):
    variable = tf.Variable(1.0)
    calls = [
        lambda: apply(optimizer, 0.5, variable, name="step"),
        lambda: optimizer.apply_gradients([(tf.constant(0.5), variable)], "step"),
        lambda: apply(optimizer, 0.5, variable, experimental_aggregate_gradients=True),
        lambda: apply(optimizer, 0.5, variable, skip_gradients_aggregation=False),
        lambda: apply(optimizer, 0.5, variable, bogus=1),
    ]
    return _outcomes(optimizer, calls, variable)


_STEPS = {
    "sparse": _sparse,
    "half": _float16,
    "some_none": _some_none,
    "all_none": _all_none,
    "empty": lambda opt: _outcomes(opt, [lambda: opt.apply_gradients([])] * 2),
    "generator_arg": _generator_arg,
    "name_kwarg": _name_kwarg,
}


def sparse_and_half(api, family, case):
    """Replay steps with slices, float16 variables, missing gradients and unusual arguments."""
    return _STEPS[case["case"]](wrapped(api, family, case["inner"]))


# --- The section `minimize_variants`. Each case is a function of the optimizer and a variable.


def _minimize_case(loss, variables=lambda v: [v], **keywords):
    """Return a case that calls `minimize` once.

    `loss` and `variables` are functions of the variable. They return the arguments of
    `minimize`.
    """

    def run(optimizer, variable):
        returned = optimizer.minimize(loss(variable), variables(variable), **keywords)
        return {"ret": encode(returned), "state": state(optimizer, [variable])}

    return run


def _loss_fn(variable):
    return lambda: 2.0 * variable


def _tensor_tape(optimizer, variable):
    with tf.GradientTape() as tape:
        loss = 2.0 * variable
    return _minimize_case(lambda _: loss, tape=tape)(optimizer, variable)


def _traced_case(call, times=1):
    """Return a case that calls a `tf.function` several times. The function runs `call`.

    The results contain what `call` returned at each trace.
    """

    def run(optimizer, variable):
        trace = []

        @tf.function
        def step():
            trace.append(encode(call(optimizer, variable)))

        for _ in range(times):
            step()
        return {"trace": trace, "state": state(optimizer, [variable])}

    return run


def _unconnected(optimizer, variable):
    other = tf.Variable(1.0)
    call = attempt(lambda: optimizer.minimize(_loss_fn(variable), [other]))
    return {"call": call, "state": state(optimizer, [variable, other])}


def _compute_gradients(optimizer, variable):
    def outcome(name):
        if not hasattr(optimizer, name):
            return "absent"
        return attempt(lambda: getattr(optimizer, name)(_loss_fn(variable), [variable]))

    return {
        "_compute_gradients": outcome("_compute_gradients"),
        "compute_gradients": outcome("compute_gradients"),
    }


def _get_gradients(optimizer, variable):
    # If the optimizer lacks the method, this line raises the error that the record has.
    get_gradients = optimizer.get_gradients
    return {"eager": attempt(lambda: get_gradients(2.0 * variable, [variable]))}


def _get_gradients_in_function(optimizer, variable):
    trace = []

    @tf.function
    def gradients():
        result = optimizer.get_gradients(2.0 * variable, [variable])
        trace.append(encode(result))
        return result[0]

    return {"value": encode(gradients()), "trace": trace}


_MINIMIZE = {
    "c_list": _minimize_case(_loss_fn),
    "c_single": _minimize_case(_loss_fn, lambda v: v),
    "c_callable_vars": _minimize_case(_loss_fn, lambda v: lambda: [v]),
    "c_tensor_no_tape": _minimize_case(lambda v: 2.0 * v),
    "c_tensor_tape": _tensor_tape,
    "c_grad_loss": _minimize_case(_loss_fn, grad_loss=tf.constant(3.0)),
    "c_f16_loss": _minimize_case(lambda v: lambda: tf.cast(2.0 * v, tf.float16)),
    "c_function": _traced_case(lambda opt, v: opt.minimize(_loss_fn(v), [v]), times=3),
    "c_nan": _minimize_case(lambda v: lambda: NAN * v),
    "c_unconnected": _unconnected,
    "c_compute_gradients": _compute_gradients,
    "c_get_gradients": _get_gradients,
    "c_get_gradients_fn": _get_gradients_in_function,
    "c_get_updates_fn": _traced_case(lambda opt, v: opt.get_updates(2.0 * v, [v])),
}


def minimize_variants(api, family, case):
    """Replay `minimize` and the related methods of TensorFlow 2.0-2.15."""
    optimizer = wrapped(api, family, case="sgd_plain")
    return _MINIMIZE[case["case"]](optimizer, tf.Variable(1.0))


# --- The section `floor_and_overflow`. Each letter in the pattern of a case is one step. Maps
# the letter to the gradient.

GRADIENT_OF_LETTER = {"g": 0.5, "n": NAN, "i": INF}


def python_value(text):
    """Return the value of an argument. The names of a case contain its `repr`."""
    return eval(text, {"np": np, "tf": tf, "inf": INF, "nan": NAN})


def floor_and_overflow(api, family, case):
    """Replay steps at the smallest scale, near the largest float32, and with odd arguments."""
    scale, growth = (python_value(case[key]) for key in ("scale", "growth"))
    optimizer = wrapped(api, family, case="sgd_plain", scale=scale, growth=growth)
    variable = tf.Variable(1.0)

    def row(*progress):
        counter = int(optimizer.dynamic_counter.numpy())
        return [float(optimizer.loss_scale), counter, *progress]

    rows = [row(None, None)]
    for letter in case["pattern"]:
        apply(optimizer, GRADIENT_OF_LETTER[letter], variable)
        rows.append(row(float(variable.numpy()), int(optimizer.iterations.numpy())))
    return {
        "growth": optimizer.dynamic_growth_steps,
        "initial_scale": optimizer.initial_scale,
        "rows": rows,
    }


# --- The section `extras`


def extras(api, family, case):
    """Replay the gradient transformers and aggregators of OptimizerV2."""
    seen = []

    def halve(pairs):
        pairs = list(pairs)
        seen.append([float(gradient) for gradient, _ in pairs])
        return [(gradient / 2.0, variable) for gradient, variable in pairs]

    # The steps are pairs of a gradient and keywords of `apply_gradients`.
    if case["case"] == "gradient_transformers":
        arguments = {"gradient_transformers": [halve]}
        name_of_seen = "seen_by_transformer"
        steps = [(1.0, {}), (NAN, {}), (1.0, {})]
    else:
        arguments = {"gradient_aggregator": halve}
        name_of_seen = "seen_by_aggregator"
        steps = [(1.0, {}), (1.0, {"experimental_aggregate_gradients": False})]
    optimizer = harness.wrap(api, FAMILIES[family].SGD(0.1, **arguments))
    variable, rows = tf.Variable(1.0), []
    for gradient, keywords in steps:
        apply(optimizer, gradient, variable, **keywords)
        rows.append(without(state(optimizer, [variable]), "slots"))
    return {"rows": rows, name_of_seen: seen}


def _same(actual, expected, case, family):
    if family == "keras3":  # slots of Keras 3 have other names
        actual, expected = (without(value, "slots") for value in (actual, expected))
    return equal(actual, expected, harness.KERNEL_TOLERANCE)


# These tables map a family of the record to the installed families that replay its cases. Steps
# are replayed on the families whose inner optimizers compute the same. Optimizers of Keras 3
# compute the same as the `new` optimizers of TensorFlow 2.11. `_ALL` is for cases that do not
# depend on the arithmetic of the inner optimizer. Each installed family replays such cases
# once.
_ALL = {"v2": here("legacy", "keras3"), "new": here("new")}
_STEPS_FAMILIES = {"v2": here("legacy"), "new": here("new", "keras3")}
# Only OptimizerV2 has transformers and aggregators.
_EXTRAS_FAMILIES = {"v2": here("legacy"), "new": ()}


def _section(name, replay, families, differs):
    # The stable class also replays the cases of the experimental class.
    return Section("golden", name, replay, _same, differs, families, api="stable")


# The state after a step of SGD with the gradient 2.
STEP_OF_2 = {
    "vars": [0.800000011920929],
    "loss_scale": 4.0,
    "counter": 1,
    "iterations": 1,
    "slots": {"m/Variable": -0.20000000298023224},
}

SECTIONS = [
    _section(
        "scaled_loss",
        scaled_loss,
        _ALL,
        {
            "Calls that failed with an unclear error": [
                where(
                    case=["callable_pyfloat", "list", "none", "py_float", "py_int"],
                    raises="TypeError: 'loss' must be a tensor",
                ),
            ],
        },
    ),
    _section(
        "unscaled_gradients",
        unscaled_gradients,
        _ALL,
        {
            "Python numbers and integers as gradients": [
                where(case="pyfloat", scale=4.0, gives=[float32(1.5)]),
                where(case="int32", scale=4.0, changes={"0 > v": 1}),
                where(case="pyfloat", scale=3.0, gives=[float32(2.0)]),
                where(case="int32", scale=3.0, changes={"0 > v": 2}),
                where(
                    case="pyfloat",
                    scale=1073741824.0,
                    gives=[float32(5.587935447692871e-09)],
                ),
                where(case="pyfloat", scale=10.0, gives=[float32(0.6000000238418579)]),
            ],
            "Calls that failed with an unclear error": [
                where(
                    case=["dict", "nested"],
                    raises="TypeError: Gradients must be tensors, .* of type (list|str)",
                ),
            ],
            "one division in float32 or wider, not a product with a rounded reciprocal": [
                where(case="f64", scale=3.0, changes={"0 > v": 2.033333333333333}),
                where(
                    case="awkward_f32",
                    scale=3.0,
                    changes={"0 > v > 2": 3.333333253863202e-08},
                ),
                where(
                    case="awkward_f16", scale=3.0, changes={"0 > v > 2": 1.1005859375}
                ),
                where(case="f16", scale=10.0, changes={"0 > v": 0.60009765625}),
                where(case="f64", scale=10.0, changes={"0 > v": 0.61}),
                where(
                    case="awkward_f32",
                    scale=10.0,
                    changes={"0 > v > 0": 0.009999999776482582},
                ),
            ],
        },
    ),
    _section(
        "sparse_and_half",
        sparse_and_half,
        _STEPS_FAMILIES,
        {
            "`apply_gradients` of no gradient": [
                where(
                    case="empty",
                    family="new",
                    changes={"calls": [{"ok": None}, {"ok": None}]},
                ),
                where(case="empty", family="v2", changes={"state > loss_scale": 4.0}),
            ],
            "every family accepts `name` and both arguments about aggregation": [
                where(
                    case="name_kwarg",
                    gives={
                        "calls": [{"ok": None}] * 4 + [{"error": "TypeError"}],
                        "state": {
                            "loss_scale": 16.0,
                            "counter": 0,
                            "iterations": 4,
                            "vars": ANYTHING,
                            "slots": ANYTHING,
                        },
                    },
                ),
            ],
            "a refused step makes no slots": [
                where(case="all_none", on="new", changes={"state > slots": {}}),
            ],
        },
    ),
    _section(
        "minimize_variants",
        minimize_variants,
        _ALL,
        {
            "ValueError that asks for the tape, as since 2.4": [
                where(
                    api="experimental",
                    case="c_tensor_no_tape",
                    message="`tape` is required",
                ),
            ],
            "both names exist on every family": [
                where(
                    case="c_compute_gradients",
                    family="v2",
                    changes={
                        "compute_gradients": {
                            "ok": [{"tuple": [float32(2.0), float32(1.0)]}]
                        }
                    },
                ),
                where(
                    case="c_compute_gradients",
                    family="new",
                    changes={
                        "_compute_gradients": {
                            "ok": [{"tuple": [float32(2.0), float32(1.0)]}]
                        }
                    },
                ),
            ],
            "Calls that failed with an unclear error": [
                where(
                    case="c_get_gradients",
                    family="v2",
                    changes={"eager": {"error": "RuntimeError"}},
                ),
                where(
                    case="c_get_gradients",
                    family="new",
                    gives={"eager": {"error": "RuntimeError"}},
                ),
            ],
            "What `apply_gradients` returns in a `tf.function`": [
                # Keras 3 creates variables at a first trace that is also the last.
                where(
                    case="c_function", on="keras3", changes={"trace": [BOOL_IN_GRAPH]}
                ),
                where(
                    case="c_get_updates_fn",
                    on="keras3",
                    changes={"trace": [[BOOL_IN_GRAPH]]},
                ),
                where(
                    case="c_function",
                    on="legacy",
                    changes={"trace": [BOOL_IN_GRAPH, BOOL_IN_GRAPH]},
                ),
                where(
                    case="c_get_updates_fn",
                    on="legacy",
                    changes={"trace > * > 0": BOOL_IN_GRAPH},
                ),
                where(
                    case="c_function",
                    family="new",
                    changes={"trace": [BOOL_IN_GRAPH, BOOL_IN_GRAPH]},
                ),
            ],
            "Methods": [
                where(
                    case="c_single",
                    family="new",
                    gives={"ret": None, "state": STEP_OF_2},
                ),
                where(
                    case="c_grad_loss",
                    family="new",
                    gives={
                        "ret": None,
                        "state": {
                            **STEP_OF_2,
                            "vars": [0.3999999761581421],
                            "slots": {"m/Variable": -0.6000000238418579},
                        },
                    },
                ),
            ],
            "a refused step makes no slots": [
                where(
                    case="c_unconnected", family="new", changes={"state > slots": {}}
                ),
            ],
            "get_gradients exists on every family": [
                where(
                    case="c_get_gradients_fn",
                    family="new",
                    gives={"value": float32(2.0), "trace": [[FLOAT_IN_GRAPH]]},
                ),
            ],
            "get_updates exists on every family": [
                where(
                    case="c_get_updates_fn",
                    family="new",
                    gives={
                        "trace": [[BOOL_IN_GRAPH], [BOOL_IN_GRAPH]],
                        "state": STEP_OF_2,
                    },
                ),
            ],
        },
    ),
    _section(
        "floor_and_overflow",
        floor_and_overflow,
        _ALL,
        {
            "Bools as scales or steps": [
                where(
                    scale="True", raises="TypeError: must be a number, but got the bool"
                ),
            ],
            "growth steps must be positive": [
                where(
                    pattern="gg",
                    scale="4.0",
                    raises="ValueError: 'dynamic_growth_steps' must be",
                ),
            ],
            "growth steps must be whole": [
                where(
                    growth="2.9",
                    raises="ValueError: 'dynamic_growth_steps' must be a positive whole number",
                ),
            ],
            "a scale must be positive and finite": [
                where(
                    pattern="gng",
                    raises="ValueError: 'initial_scale' must be a positive and finite float32",
                ),
            ],
        },
    ),
    _section("extras", extras, _EXTRAS_FAMILIES, {}),
]


@pytest.mark.parametrize("replays", grouped(SECTIONS))
def test_equals_every_version(replays):
    check_all(replays)


def test_bfloat16_loss_stays_bfloat16():
    # The record cannot show this, since it has bfloat16 results as float32.
    optimizer = harness.wrapped("stable", CURRENT, kind="fixed", scale=4.0)
    loss = optimizer.get_scaled_loss(tf.constant(1.5, tf.bfloat16))
    assert loss.dtype == tf.bfloat16
