"""DynamicLossScale, FixedLossScale and LossScale, as every version had them.

Each case runs on the real classes too, which TensorFlow keeps as
`tf.compat.v1.mixed_precision`: a case that they fail tells of the harness.
"""

import ast
import functools
import re
import types

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.golden import harness, messages
from tests.golden.encoding import (
    INF,
    NAN,
    attempt,
    encode,
    equal,
    instance,
    recorded,
    without,
)
from tests.golden.replay_calls import PATTERN, python_value, slices

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
NO_PERIOD = "'increment_period' must be"

# The name of a case -> why tf_lso refuses what the real classes took, and its message.
REFUSED = {
    "Dyn_args(-8,)": NOT_POSITIVE,
    "Dyn_args(0,)": NOT_POSITIVE,
    "Dyn_args(inf,)": NOT_POSITIVE,
    "Dyn_args(8, 2, -2)": (NO_ARGUMENT, NOT_POSITIVE[1]),
    "Dyn_args(8, 2, 0)": (NO_ARGUMENT, NOT_POSITIVE[1]),
    "Fixed_inf": NOT_POSITIVE,
    "Fixed_nan": NOT_POSITIVE,
    "Dyn_args(8, -1)": (NO_ARGUMENT, NO_PERIOD),
    "Dyn_args(8, 0)": (NO_ARGUMENT, NO_PERIOD),
    "Dyn_args(8, 2.9)": ("Growth steps with a fraction, such as 2.9", NO_PERIOD),
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

# --- The cases: functions of the classes that return what `attempt` encodes.

_TENSOR = "<tf.Tensor: shape=(), dtype=float32, numpy=8.0>"


def _incomplete(classes):
    class Incomplete(classes.Base):
        def __call__(self):
            return tf.constant(1.0)

        def update(self, grads):
            return tf.no_op(), True

    return Incomplete()


def _defaults(classes):
    loss_scale = classes.Dynamic()
    names = ("initial_loss_scale", "increment_period", "multiplier")
    return [*(getattr(loss_scale, name) for name in names), loss_scale()]


def _from_config(classes):
    config = {"initial_loss_scale": 9.0, "increment_period": 2, "multiplier": 3.0}
    return repr(classes.Dynamic.from_config(config))


def _equal(classes):
    first, second = classes.Fixed(8), classes.Fixed(8)
    return [first == second, first == first]


def _update_in_function(classes):
    fixed, trace = classes.Fixed(8.0), []

    @tf.function
    def update():
        operation, should_apply = fixed.update([tf.constant(1.0)])
        operation = {"Operation": instance(operation.type)}
        trace.append({"tuple": [operation, should_apply]})
        return fixed()

    return [encode(update()), trace]


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
}

CALLS = {
    "Base_abstract": lambda c: sorted(c.Base.__abstractmethods__),
    "Base_instantiate": lambda c: c.Base(),
    "Base_subclass_incomplete": _incomplete,
    "Dyn_config": lambda c: c.Dynamic(8, 3, 4.0).get_config(),
    "Dyn_defaults": _defaults,
    "Dyn_from_config": _from_config,
    "Dyn_repr": lambda c: repr(c.Dynamic(8, 3, 4.0)),
    "Dyn_str": lambda c: str(c.Dynamic(8, 3, 4.0)),
    "Dyn_set_initial": lambda c: setattr(c.Dynamic(), "initial_loss_scale", 1),
    "Dyn_set_period": lambda c: setattr(c.Dynamic(), "increment_period", 1),
    "Fixed_call": lambda c: c.Fixed(8)(),
    "Fixed_config": lambda c: c.Fixed(8).get_config(),
    "Fixed_eq": _equal,
    "Fixed_from_config": lambda c: instance(
        c.Fixed.from_config({"loss_scale_value": 9.0})
    ),
    "Fixed_noargs": lambda c: c.Fixed(),
    "Fixed_repr": lambda c: repr(c.Fixed(8)),
    "Fixed_tensor": lambda c: instance(c.Fixed(tf.constant(8.0))),
    "Fixed_update": lambda c: c.Fixed(8).update([tf.constant(NAN)]),
    "Fixed_update_in_function": _update_in_function,
}

UPDATES = {
    "update:empty": lambda: [],
    "update:f16": lambda: [tf.constant(INF, tf.float16)],
    "update:int": lambda: [tf.constant(1)],
    "update:nested": lambda: {"a": [tf.constant(1.0), (tf.constant(NAN), None)]},
    "update:none_only": lambda: [None],
    "update:pyfloat": lambda: [1.0],
    "update:pynan": lambda: [NAN],
    "update:single_tensor": lambda: tf.constant(NAN),
    "update:slices": lambda: [slices([1.0, NAN])],
    "update:slices_no_shape": lambda: [slices(shape=None)],
    "update:slices_ok": lambda: [slices()],
}


def _scale_and_count(loss_scale):
    return [float(loss_scale()), int(loss_scale._num_good_steps.numpy())]


def _update(classes, name):
    loss_scale = classes.Dynamic(8.0)
    _, should_apply = loss_scale.update(UPDATES[name]())
    scale, count = _scale_and_count(loss_scale)
    return {"good": count, "scale": scale, "should_apply": bool(should_apply)}


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
        should_apply = bool(update(tf.constant(PATTERN[letter])))
        rows.append([should_apply, *_scale_and_count(loss_scale)])
    return {"rows": rows, "repr": repr(loss_scale)}


def _checkpoint_names(classes, folder):
    checkpoint = tf.train.Checkpoint(s=classes.Dynamic(8.0))
    path = checkpoint.save(str(folder / "ckpt"))
    return [name for name, _ in tf.train.list_variables(path)]


def _call(classes, name, folder):
    if name in CALLS:
        return CALLS[name](classes)
    if name in FIXED_ARGUMENTS:
        return instance(classes.Fixed(FIXED_ARGUMENTS[name]))
    if name in UPDATES:
        return _update(classes, name)
    if name.startswith("traj:"):
        return _trajectory(classes, name)
    if name == "deferred_checkpoint_names":
        return _checkpoint_names(classes, folder)
    arguments = name.removeprefix("Dyn_args").replace(_TENSOR, "tf.constant(8.0)")
    return repr(classes.Dynamic(*python_value(arguments)))


def replay(classes, name, folder):
    """What the record holds for the case of this name."""
    return attempt(lambda: _call(classes, name, folder))


def _recorded(result):
    """The record in the form of `replay`: of what `update` returned, should_apply.

    The op that it returned beside was None or a variable in eager mode, by chance.
    """
    result = recorded(result)
    if not isinstance(result.get("ok"), dict):
        return result
    content = without(result["ok"], "returns", "ret")
    if "ret" in result["ok"]:
        content["should_apply"] = result["ok"]["ret"]["tuple"][1]["v"]
    return {"ok": content}


def _cases(file, applies=lambda name, results: True):
    return [
        pytest.param(case["case"], results, id=case["case"])
        for case, results in harness.cases("loss_scale_classes", file)
        if applies(case["case"], results)
    ]


@pytest.mark.parametrize(("name", "results"), _cases("golden"))
def test_real_classes(name, results, tmp_path):
    result = harness.result_of(results, harness.REFERENCE)
    if result is None:
        pytest.skip("a name of other versions")
    actual = replay(REAL, name, tmp_path)
    assert equal(actual, _recorded(result)), actual


@pytest.mark.parametrize(("name", "results"), _cases("golden"))
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
            assert not equal(expected, OTHERWISE[name][1]), "no difference"
            expected = OTHERWISE[name][1]
        if name in AS_THE_LAST and harness.REFERENCE not in entry["versions"]:
            assert not equal(actual, expected), "no difference"
        else:
            assert equal(actual, expected), f"{entry['versions']}: {actual}"


# --- Beside what they compute: public names, old names, messages.


@pytest.mark.parametrize(
    ("name", "results"), _cases("behaviour", lambda name, results: "_attrs" in name)
)
def test_has_the_public_names(name, results):
    loss_scale = OURS.Dynamic() if name == "Dyn_attrs" else OURS.Fixed(8)
    for entry in results:
        assert set(entry["result"]["ok"]) <= set(dir(loss_scale))


def test_has_every_name_that_a_version_had():
    ((_, results),) = harness.cases("loss_scale_classes", "behaviour", case="aliases")
    had = {
        alias
        for entry in results
        for alias, known in entry["result"]["ok"].items()
        if known
    }
    assert len(had) == 5
    for alias in had:
        parts = alias.split(".")[1:]  # without `tf`
        assert functools.reduce(getattr, parts, tf_lso) is tf_lso.DynamicLossScale


@pytest.mark.parametrize(
    ("name", "results"),
    _cases(
        "behaviour",
        lambda name, results: any("message" in entry["result"] for entry in results),
    ),
)
def test_messages_are_as_clear(name, results, tmp_path):
    actual = replay(OURS, name, tmp_path)
    for entry in results:
        if "message" in entry["result"] and "error" in actual:
            recorded_message = entry["result"]["message"]
            assert messages.is_as_clear(actual["message"], recorded_message)
