"""Replay the short cases of `golden.json.gz`: scaled values, single steps and odd arguments."""

import numpy as np
import pytest
import tensorflow as tf

from tests.families import CURRENT, FAMILIES, here
from tests.golden import harness
from tests.golden.comparing import (
    REPLAY_FAMILIES,
    STEPS_FAMILIES,
    V2_OF_2_15,
    Section,
    check_all,
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
    """Return a case that calls a `tf.function` several times. The function runs `call`."""

    def run(optimizer, variable):
        step = tf.function(lambda: call(optimizer, variable))
        for _ in range(times):
            step()
        return {"state": state(optimizer, [variable])}

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
    @tf.function
    def gradients():
        return optimizer.get_gradients(2.0 * variable, [variable])[0]

    return {"value": encode(gradients())}


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


def _same_but_for_traces(actual, expected, case, family):
    # What `apply_gradients` returns while it is traced is a case of `test_trajectories.py`.
    return _same(actual, without(expected, "trace"), case, family)


def _section(name, replay, differs, families=REPLAY_FAMILIES, equal=_same):
    # The stable class also replays the cases of the experimental class.
    return Section("golden", name, replay, equal, differs, families, api="stable")


SECTIONS = [
    _section(
        "scaled_loss",
        scaled_loss,
        [
            # Calls that failed with an unclear error.
            where(
                case=["callable_pyfloat", "list", "none", "py_float", "py_int"],
                raises="TypeError",
            ),
        ],
    ),
    _section(
        "unscaled_gradients",
        unscaled_gradients,
        [
            # Python numbers and integers as gradients.
            where(case="pyfloat", scale=3.0, gives=[encode(tf.constant(2.0))]),
            where(case="int32", scale=3.0, changes={"0 > v": 2}),
            where(
                case=["int32", "pyfloat"], scale=[4.0, 10.0, 2.0**30], gives=ANYTHING
            ),
            # Calls that failed with an unclear error.
            where(case=["dict", "nested"], raises="TypeError"),
            # tests/scaling/test_gradients.py compares these quotients with NumPy.
            # one division in float32 or wider, not a product with a rounded reciprocal.
            where(
                case=["awkward_f16", "awkward_f32", "f64"], scale=3.0, gives=ANYTHING
            ),
            where(case=["awkward_f32", "f16", "f64"], scale=10.0, gives=ANYTHING),
        ],
    ),
    _section(
        "sparse_and_half",
        sparse_and_half,
        [
            # `apply_gradients` of no gradient.
            where(
                case="empty",
                family="new",
                changes={"calls": [{"ok": None}, {"ok": None}]},
            ),
            where(case="empty", family="v2", changes={"state > loss_scale": 4.0}),
            # every family accepts `name` and both arguments about aggregation.
            where(
                case="name_kwarg",
                gives={
                    "calls": [{"ok": None}] * 4 + [{"error": "TypeError"}],
                    "state": ANYTHING,
                },
            ),
            # a refused step makes no slots.
            where(case="all_none", on="new", changes={"state > slots": {}}),
        ],
        STEPS_FAMILIES,
    ),
    _section(
        "minimize_variants",
        minimize_variants,
        [
            # Calls that failed with an unclear error.
            where(case="c_get_gradients", gives={"eager": {"error": "RuntimeError"}}),
            # Methods.
            where(
                case="c_compute_gradients",
                family="v2",
                changes={"compute_gradients": ANYTHING},
            ),
            where(
                case="c_compute_gradients",
                family="new",
                changes={"_compute_gradients": ANYTHING},
            ),
            where(case="c_get_gradients_fn", family="new", like=V2_OF_2_15),
            where(
                case=["c_get_updates_fn", "c_grad_loss", "c_single"],
                family="new",
                like=V2_OF_2_15,
                changes={"state > slots": ANYTHING},
            ),
            # a refused step makes no slots.
            where(case="c_unconnected", family="new", changes={"state > slots": {}}),
        ],
        equal=_same_but_for_traces,
    ),
    _section(
        "floor_and_overflow",
        floor_and_overflow,
        [
            # Bools as scales or steps.
            where(scale="True", raises="TypeError"),
            # growth steps must be positive.
            where(pattern="gg", scale="4.0", raises="ValueError"),
            # growth steps must be whole.
            where(growth="2.9", raises="ValueError"),
            # a scale must be positive and finite.
            where(pattern="gng", raises="ValueError"),
        ],
    ),
    # Only OptimizerV2 has transformers and aggregators.
    _section("extras", extras, {}, {"v2": here("legacy"), "new": ()}),
]


@pytest.mark.parametrize("replays", grouped(*SECTIONS))
def test_equals_every_version(replays):
    check_all(replays)


def test_bfloat16_loss_stays_bfloat16():
    # The record cannot show this, since it has bfloat16 results as float32.
    optimizer = harness.wrapped("stable", CURRENT, kind="fixed", scale=4.0)
    loss = optimizer.get_scaled_loss(tf.constant(1.5, tf.bfloat16))
    assert loss.dtype == tf.bfloat16
