"""Replay calls of DynamicLossScale, FixedLossScale and LossScale."""

import ast
import operator
import re
import tempfile

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import CURRENT
from tests.golden import harness
from tests.golden.comparing import Section, check_all, grouped, where
from tests.golden.encoding import INF, NAN, encode, equal, instance, without
from tests.golden.test_calls import GRADIENT_OF_LETTER, python_value, slices

# --- Most cases are functions without arguments.

_CONFIG = {"initial_loss_scale": 9.0, "increment_period": 2, "multiplier": 3.0}
_TENSOR_REPR = "<tf.Tensor: shape=(), dtype=float32, numpy=8.0>"


def _incomplete():
    class Incomplete(tf_lso.LossScale):
        def __call__(self):
            return tf.constant(1.0)

        def update(self, grads):
            return tf.no_op(), True

    return Incomplete()


def _equal():
    first, second = tf_lso.FixedLossScale(8), tf_lso.FixedLossScale(8)
    return [first == second, first == first]


def _update_in_function():
    fixed, trace = tf_lso.FixedLossScale(8.0), []

    @tf.function
    def update():
        operation, should_apply = fixed.update([tf.constant(1.0)])
        operation = {"Operation": instance(operation.type)}
        trace.append({"tuple": [operation, should_apply]})
        return fixed()

    return [encode(update()), trace]


def _checkpoint_names():
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = tf.train.Checkpoint(s=tf_lso.DynamicLossScale(8.0))
        path = checkpoint.save(f"{folder}/ckpt")
        return [name for name, _ in tf.train.list_variables(path)]


_FIXED_VALUES = {"np32": np.float32(8.0), "np64": np.float64(8.0), "str": "8"}

CALLS = {
    "Base_abstract": lambda: sorted(tf_lso.LossScale.__abstractmethods__),
    "Base_instantiate": lambda: tf_lso.LossScale(),
    "Base_subclass_incomplete": _incomplete,
    "Dyn_attrs": lambda: dir(tf_lso.DynamicLossScale()),
    "Dyn_config": lambda: tf_lso.DynamicLossScale(8, 3, 4.0).get_config(),
    "Dyn_defaults": lambda: [
        tf_lso.DynamicLossScale().initial_loss_scale,
        tf_lso.DynamicLossScale().increment_period,
        tf_lso.DynamicLossScale().multiplier,
        tf_lso.DynamicLossScale()(),
    ],
    "Dyn_from_config": lambda: repr(tf_lso.DynamicLossScale.from_config(_CONFIG)),
    "Dyn_repr": lambda: repr(tf_lso.DynamicLossScale(8, 3, 4.0)),
    "Dyn_str": lambda: str(tf_lso.DynamicLossScale(8, 3, 4.0)),
    "Dyn_set_initial": lambda: setattr(
        tf_lso.DynamicLossScale(), "initial_loss_scale", 1
    ),
    "Dyn_set_period": lambda: setattr(tf_lso.DynamicLossScale(), "increment_period", 1),
    "Fixed_attrs": lambda: dir(tf_lso.FixedLossScale(8)),
    "Fixed_call": lambda: tf_lso.FixedLossScale(8)(),
    "Fixed_config": lambda: tf_lso.FixedLossScale(8).get_config(),
    "Fixed_eq": _equal,
    "Fixed_from_config": lambda: instance(
        tf_lso.FixedLossScale.from_config({"loss_scale_value": 9.0})
    ),
    "Fixed_noargs": lambda: tf_lso.FixedLossScale(),
    "Fixed_repr": lambda: repr(tf_lso.FixedLossScale(8)),
    "Fixed_tensor": lambda: instance(tf_lso.FixedLossScale(tf.constant(8.0))),
    "Fixed_update": lambda: tf_lso.FixedLossScale(8).update([tf.constant(NAN)]),
    "Fixed_update_in_function": _update_in_function,
    "deferred_checkpoint_names": _checkpoint_names,
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


def _scale_and_counter(loss_scale):
    return [float(loss_scale()), int(loss_scale._num_good_steps.numpy())]


def _update(name):
    loss_scale = tf_lso.DynamicLossScale(8.0)
    _, should_apply = loss_scale.update(UPDATES[name]())
    scale, count = _scale_and_counter(loss_scale)
    return {"good": count, "scale": scale, "should_apply": bool(should_apply)}


def _trajectory(name):
    mode, arguments = re.fullmatch(r"traj:(\w+):(.*)", name).groups()
    *numbers, pattern = ast.literal_eval(arguments)
    loss_scale = tf_lso.DynamicLossScale(*numbers)

    def update(gradient):
        return loss_scale.update([gradient])[1]

    if mode == "function":
        update = tf.function(update)
    rows = []
    for letter in pattern:
        should_apply = bool(update(tf.constant(GRADIENT_OF_LETTER[letter])))
        rows.append([should_apply, *_scale_and_counter(loss_scale)])
    return {"rows": rows, "repr": repr(loss_scale)}


def _aliases():
    """Return {old name: whether the same name in tf_lso is DynamicLossScale}."""
    ((_, results),) = harness.cases("loss_scale_classes", "behaviour", case="aliases")
    is_alias = {}
    for name in results[0]["result"]["ok"]:
        path = name.removeprefix("tf.")
        found = operator.attrgetter(path)(tf_lso)
        is_alias[name] = found is tf_lso.DynamicLossScale
    return is_alias


def replay(api, family, case):
    name = case["case"]
    if name in CALLS:
        return CALLS[name]()
    if name.startswith("Fixed_"):
        value = name.removeprefix("Fixed_")
        value = _FIXED_VALUES[value] if value in _FIXED_VALUES else python_value(value)
        return instance(tf_lso.FixedLossScale(value))
    if name in UPDATES:
        return _update(name)
    if name.startswith("traj:"):
        return _trajectory(name)
    if name == "aliases":
        return _aliases()
    arguments = name.removeprefix("Dyn_args").replace(_TENSOR_REPR, "tf.constant(8.0)")
    return repr(tf_lso.DynamicLossScale(*python_value(arguments)))


def same(actual, expected, case, family):
    """Return whether a result is as expected.

    In the record, `update` returned an operation and whether to apply the gradients. Only the
    second value is compared, since in eager mode the first is None or a variable by chance.
    """
    result = expected.get("ok")
    if case["case"].endswith("_attrs"):  # tf_lso may have more names
        return set(result) <= set(actual["ok"])
    if case["case"] == "aliases":  # each version had some of the names
        return all(actual["ok"][name] for name, existed in result.items() if existed)
    if isinstance(result, dict):
        content = without(result, "returns", "ret")
        if "ret" in result:
            content["should_apply"] = result["ret"]["tuple"][1]["v"]
        expected = {"ok": content}
    return equal(actual, expected)


_ONE_GOOD_STEP = {"good": 1, "scale": 8.0, "should_apply": True}

SECTIONS = [
    Section(
        "golden",
        "loss_scale_classes",
        replay,
        same,
        families={None: (CURRENT,)},
        differs=[
            # Bools as scales or steps.
            where(case="Dyn_args(True, True, True)", raises="TypeError"),
            where(case="Fixed_True", raises="ValueError"),
            # Scales, multipliers and growth steps that are not positive and finite.
            where(
                case=[
                    "Dyn_args(-8,)",
                    "Dyn_args(0,)",
                    "Dyn_args(8, -1)",
                    "Dyn_args(8, 0)",
                    "Dyn_args(8, 2, -2)",
                    "Dyn_args(8, 2, 0)",
                    "Dyn_args(8, 2.9)",
                    "Dyn_args(inf,)",
                    "Fixed_inf",
                    "Fixed_nan",
                ],
                raises="ValueError",
            ),
            # Python numbers and integers as gradients.
            where(case="update:int", gives=_ONE_GOOD_STEP),
        ],
    ),
    Section(
        "behaviour",
        "loss_scale_classes",
        replay,
        same,
        families={None: (CURRENT,)},
        differs=[
            # Python numbers and integers as gradients.
            where(case="update:int", gives=_ONE_GOOD_STEP),
            # Where the versions themselves differ.
            where(case="update:slices_no_shape", gives=_ONE_GOOD_STEP),
        ],
    ),
]


@pytest.mark.parametrize("replays", grouped(*SECTIONS))
def test_equals_every_version(replays):
    check_all(replays)
