"""DynamicLossScale, FixedLossScale and LossScale, as every version had them.

Each case runs on the real classes too, which TensorFlow keeps as
`tf.compat.v1.mixed_precision`: a case that they fail tells of the harness.
"""

import ast
import re
import types

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.golden import harness, replays
from tests.golden.replays import INF, NAN, attempt, encode

OURS = types.SimpleNamespace(
    Base=tf_lso.LossScale,
    Dynamic=tf_lso.DynamicLossScale,
    Fixed=tf_lso.FixedLossScale,
)
REAL = types.SimpleNamespace(
    Base=tf.compat.v1.mixed_precision.LossScale,
    Dynamic=tf.compat.v1.mixed_precision.DynamicLossScale,
    Fixed=tf.compat.v1.mixed_precision.FixedLossScale,
)

# Below, the rows of compat_docs/reference/differences.md that tell why, by how they begin;
# `test_differences.py` looks for them.
NOT_POSITIVE = (
    "A scale that is 0, negative, infinite or NaN",
    "must be a positive and finite",
)
NO_ARGUMENT = "A `multiplier` or `increment_period` of `DynamicLossScale`"

# The name of a case -> why tf_lso refuses what the real classes took, and its message.
REFUSED = {
    "Dyn_args(-8,)": NOT_POSITIVE,
    "Dyn_args(0,)": NOT_POSITIVE,
    "Dyn_args(inf,)": NOT_POSITIVE,
    "Dyn_args(8, 2, -2)": (NO_ARGUMENT, NOT_POSITIVE[1]),
    "Dyn_args(8, 2, 0)": (NO_ARGUMENT, NOT_POSITIVE[1]),
    "Fixed_inf": NOT_POSITIVE,
    "Fixed_nan": NOT_POSITIVE,
    "Dyn_args(8, -1)": (NO_ARGUMENT, "'increment_period' must be"),
    "Dyn_args(8, 0)": (NO_ARGUMENT, "'increment_period' must be"),
    "Dyn_args(8, 2.9)": (
        "Growth steps with a fraction, such as 2.9",
        "'increment_period' must be",
    ),
}

# The name of a case -> why tf_lso does as the last version did, and not the first.
AS_THE_LAST = {
    "update:slices_no_shape": "`LossScale.update` of slices without `dense_shape`",
}

# The name of a case -> why tf_lso does otherwise, and what.
OTHERWISE = {
    "update:int": (
        "`LossScale.update` of integers",
        {"ok": {"good": 1, "scale": 8.0, "should_apply": True}},
    ),
}

_TENSOR = "<tf.Tensor: shape=(), dtype=float32, numpy=8.0>"


def _instance(value):
    """What the record calls {"py": class, "repr": text}."""
    return {"py": type(value).__name__, "repr": repr(value)}


def _abstract(classes):
    return {"ok": sorted(classes.Base.__abstractmethods__)}


def _incomplete(classes):
    class Incomplete(classes.Base):
        def __call__(self):
            return tf.constant(1.0)

        def update(self, grads):
            return tf.no_op(), True

    return attempt(Incomplete)


def _arguments(name):
    """The arguments that a case's name holds as their `repr`."""
    text = name.removeprefix("Dyn_args").replace(_TENSOR, "tf.constant(8.0)")
    return eval(text, {"np": np, "tf": tf, "inf": INF, "nan": NAN})


def _set(loss_scale, name):
    def assign():
        setattr(loss_scale, name, 1)

    return attempt(assign)


def _equal(classes):
    first, second = classes.Fixed(8), classes.Fixed(8)
    return {"ok": [first == second, first == first]}


def _update_in_function(classes):
    fixed, trace = classes.Fixed(8.0), []

    @tf.function
    def update():
        operation, should_apply = fixed.update([tf.constant(1.0)])
        operation = {"Operation": _instance(operation.type)}
        trace.append({"tuple": [operation, should_apply]})
        return fixed()

    return {"ok": [encode(update()), trace]}


def _checkpoint_names(classes, folder):
    checkpoint = tf.train.Checkpoint(s=classes.Dynamic(8.0))
    path = checkpoint.save(str(folder / "ckpt"))
    return {"ok": [name for name, _ in tf.train.list_variables(path)]}


FIXED_ARGUMENTS = {
    "Fixed_-1": -1,
    "Fixed_0": 0,
    "Fixed_0.5": 0.5,
    "Fixed_1": 1,
    "Fixed_None": None,
    "Fixed_True": True,
    "Fixed_inf": INF,
    "Fixed_nan": NAN,
    "Fixed_np32": np.float32(8.0),
    "Fixed_np64": np.float64(8.0),
    "Fixed_str": "8",
    "Fixed_tensor": tf.constant,
}

SIMPLE = {
    "Base_abstract": _abstract,
    "Base_instantiate": lambda c: attempt(c.Base),
    "Base_subclass_incomplete": _incomplete,
    "Dyn_config": lambda c: attempt(c.Dynamic(8, 3, 4.0).get_config),
    "Dyn_defaults": lambda c: _defaults(c.Dynamic()),
    "Dyn_from_config": lambda c: _from_config(c),
    "Dyn_repr": lambda c: {"ok": repr(c.Dynamic(8, 3, 4.0))},
    "Dyn_str": lambda c: {"ok": str(c.Dynamic(8, 3, 4.0))},
    "Dyn_set_initial": lambda c: _set(c.Dynamic(), "initial_loss_scale"),
    "Dyn_set_period": lambda c: _set(c.Dynamic(), "increment_period"),
    "Fixed_call": lambda c: attempt(c.Fixed(8)),
    "Fixed_config": lambda c: attempt(c.Fixed(8).get_config),
    "Fixed_eq": _equal,
    "Fixed_from_config": lambda c: {
        "ok": _instance(c.Fixed.from_config({"loss_scale_value": 9.0}))
    },
    "Fixed_noargs": lambda c: attempt(c.Fixed),
    "Fixed_repr": lambda c: {"ok": repr(c.Fixed(8))},
    "Fixed_update": lambda c: attempt(lambda: c.Fixed(8).update([tf.constant(NAN)])),
    "Fixed_update_in_function": _update_in_function,
}


def _defaults(loss_scale):
    names = ("initial_loss_scale", "increment_period", "multiplier")
    return {"ok": [getattr(loss_scale, n) for n in names] + [encode(loss_scale())]}


def _from_config(classes):
    config = {"initial_loss_scale": 9.0, "increment_period": 2, "multiplier": 3.0}
    return {"ok": repr(classes.Dynamic.from_config(config))}


# --- update


def _slices(values, shape):
    return tf.IndexedSlices(
        tf.constant(values),
        tf.constant([0, 2]),
        None if shape is None else tf.constant(shape),
    )


UPDATES = {
    "update:empty": lambda: [],
    "update:f16": lambda: [tf.constant(INF, tf.float16)],
    "update:int": lambda: [tf.constant(1)],
    "update:nested": lambda: {"a": [tf.constant(1.0), (tf.constant(NAN), None)]},
    "update:none_only": lambda: [None],
    "update:pyfloat": lambda: [1.0],
    "update:pynan": lambda: [NAN],
    "update:single_tensor": lambda: tf.constant(NAN),
    "update:slices": lambda: [_slices([1.0, NAN], [4])],
    "update:slices_no_shape": lambda: [_slices([1.0, 2.0], None)],
    "update:slices_ok": lambda: [_slices([1.0, 2.0], [4])],
}


def _update(classes, name):
    loss_scale = classes.Dynamic(8.0)

    def run():
        _, should_apply = loss_scale.update(UPDATES[name]())
        return {"good": _count(loss_scale), "scale": _scale(loss_scale)} | {
            "should_apply": bool(should_apply)
        }

    return attempt(run)


def _scale(loss_scale):
    return float(loss_scale())


def _count(loss_scale):
    return int(loss_scale._num_good_steps.numpy())


def _trajectory(classes, name):
    mode, arguments = re.fullmatch(r"traj:(\w+):(.*)", name).groups()
    *numbers, pattern = ast.literal_eval(arguments)
    loss_scale = classes.Dynamic(*numbers)

    def update(gradient):
        return loss_scale.update([gradient])[1]

    if mode == "function":
        update = tf.function(update)
    rows = []
    for letter in pattern:
        should_apply = update(tf.constant(replays.PATTERN[letter]))
        rows.append([bool(should_apply), _scale(loss_scale), _count(loss_scale)])
    return {"ok": {"rows": rows, "repr": repr(loss_scale)}}


def replay(classes, name, folder):
    """What the record holds for the case of this name."""
    if name in SIMPLE:
        return SIMPLE[name](classes)
    if name in FIXED_ARGUMENTS:
        value = FIXED_ARGUMENTS[name]
        value = value(8.0) if callable(value) else value
        return attempt(lambda: _instance(classes.Fixed(value)))
    if name in UPDATES:
        return _update(classes, name)
    if name.startswith("traj:"):
        return _trajectory(classes, name)
    if name == "deferred_checkpoint_names":
        return _checkpoint_names(classes, folder)
    return attempt(lambda: repr(classes.Dynamic(*_arguments(name))))


def _recorded(result):
    """The record in the form of `replay`: of what `update` returned, should_apply.

    The op that it returned beside was None or a variable in eager mode, by chance.
    """
    result = replays.recorded(result)
    if not isinstance(result.get("ok"), dict):
        return result
    content = replays.without(result["ok"], "returns", "ret")
    if "ret" in result["ok"]:
        content["should_apply"] = result["ok"]["ret"]["tuple"][1]["v"]
    return {"ok": content}


CASES = [
    pytest.param(case["case"], results, id=case["case"])
    for case, results in harness.cases("loss_scale_classes")
]


@pytest.mark.parametrize(("name", "results"), CASES)
def test_real_classes(name, results, tmp_path):
    result = harness.result_of(results, harness.REFERENCE)
    if result is None:
        pytest.skip("a name of other versions")
    actual = replay(REAL, name, tmp_path)
    assert replays.equal(actual, _recorded(result)), actual


@pytest.mark.parametrize(("name", "results"), CASES)
def test_tf_lso(name, results, tmp_path):
    actual = replay(OURS, name, tmp_path)
    for entry in results:
        expected = _recorded(entry["result"])
        if name in REFUSED:
            assert "ok" in expected, "both refuse it"
            assert actual["error"] == "ValueError"
            assert re.search(REFUSED[name][1], actual["message"])
            continue
        if name in OTHERWISE:
            assert not replays.equal(expected, OTHERWISE[name][1]), "no difference"
            expected = OTHERWISE[name][1]
        if name in AS_THE_LAST and harness.REFERENCE not in entry["versions"]:
            assert not replays.equal(actual, expected), "no difference"
        else:
            assert replays.equal(actual, expected), f"{entry['versions']}: {actual}"
