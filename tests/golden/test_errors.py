"""Replay valid and invalid constructor calls, and operations such as `copy`."""

import copy
import pickle

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import CURRENT, FAMILIES
from tests.golden import test_attributes
from tests.golden.comparing import Section, check_all, grouped, where
from tests.golden.encoding import without
from tests.golden.harness import CLASSES, apply


class NotOpt:
    """A class that is not an optimizer."""


# --- Constructor calls. Maps the name of a case to the arguments after the inner optimizer.

_FIXED = {"dynamic": False, "initial_scale": 4.0}

STABLE_CALLS = {
    "dynamic_DynamicLossScale": {"dynamic": tf_lso.DynamicLossScale()},
    "dynamic_None": {"dynamic": None},
    "dynamic_growth_str_bad": {"dynamic_growth_steps": "abc"},
    "dynamic_int_1": {"dynamic": 1},
    "dynamic_np_bool": {"dynamic": np.bool_(True)},
    "dynamic_positional_float": {"dynamic": 128.0},
    "dynamic_scale_str_bad": {"initial_scale": "abc"},
    "dynamic_str": {"dynamic": "dynamic"},
    "dynamic_tensor": {"dynamic": tf.constant(True)},
    "fixed_half": _FIXED | {"initial_scale": 0.5},
    "fixed_neg": _FIXED | {"initial_scale": -2.0},
    "fixed_no_initial": {"dynamic": False},
    "fixed_no_initial_with_growth": {"dynamic": False, "dynamic_growth_steps": 3},
    "fixed_str_bad": _FIXED | {"initial_scale": "abc"},
    "fixed_str_num": _FIXED | {"initial_scale": "4"},
    "fixed_tensor": _FIXED | {"initial_scale": tf.constant(4.0)},
    "fixed_with_growth": _FIXED | {"dynamic_growth_steps": 3},
    "fixed_zero": _FIXED | {"initial_scale": 0.0},
    "kw_loss_scale": {"loss_scale": "dynamic"},
}

LOSS_SCALES = {
    "DynamicLossScale": tf_lso.DynamicLossScale(8.0, 3),
    "DynamicLossScale_mult4": tf_lso.DynamicLossScale(8.0, 3, 4.0),
    "FixedLossScale": tf_lso.FixedLossScale(8.0),
    "None": None,
    "True": True,
    "bogus_str": "bogus",
    "dict": {"class_name": "FixedLossScale", "config": {"loss_scale_value": 8}},
    "dynamic": "dynamic",
    "float": 8.0,
    "half": 0.5,
    "int": 8,
    "list": [8],
    "np_float32": np.float32(8.0),
    "np_float64": np.float64(8.0),
    "object": NotOpt(),
    "tensor": tf.constant(8.0),
    "zero": 0,
}

WRAPPED = {
    "wrap_None": lambda family: None,
    "wrap_class": lambda family: FAMILIES[family].SGD,
    "wrap_int": lambda family: 3,
    "wrap_object": lambda family: NotOpt(),
    "wrap_str": lambda family: "sgd",
    "wrap_v1_GradientDescent": lambda family: (
        tf.compat.v1.train.GradientDescentOptimizer(0.1)
    ),
}


# --- Other cases: functions of (make, inner, wrap). `make` is the class of the wrapper. `inner`
# is an inner optimizer. `wrap` calls the class with an optimizer and all required arguments.


def _wrap_again(make, inner, wrap):
    wrap(inner)
    return wrap(inner)


def _wrap_after_failure(make, inner, wrap):
    with pytest.raises(ValueError):
        make(inner, dynamic=False)
    return wrap(inner)


def _properties(optimizer):
    return [
        optimizer.dynamic,
        optimizer.loss_scale,
        optimizer.dynamic_counter,
        optimizer.initial_scale,
        optimizer.dynamic_growth_steps,
    ]


def _shared(make, inner, wrap):
    scale = tf_lso.DynamicLossScale(8.0, increment_period=1)
    first, second = make(inner, scale), make(type(inner)(0.1), scale)
    apply(first, 1.0, tf.Variable(1.0))
    return {
        "a": float(first.loss_scale),
        "b": float(second.loss_scale),
        "s": float(scale()),
        "same_obj": first.loss_scale is scale,
    }


class _Constant(tf_lso.LossScale):
    def __call__(self):
        return tf.constant(4.0)

    def update(self, grads):
        return tf.no_op(), True

    def get_config(self):
        return {}


def _custom(make, inner, wrap):
    variable = tf.Variable(1.0)
    returned = make(inner, _Constant()).minimize(lambda: 2.0 * variable, [variable])
    return {"ret": returned, "v": float(variable.numpy())}


def _default_optimizer(inner):
    """Return the class `optimizers.Optimizer` of the Keras that an optimizer belongs to."""
    family = CURRENT if isinstance(inner, FAMILIES[CURRENT].Optimizer) else "new"
    return FAMILIES[family].Optimizer


# Cases that return an object. The result in the record is the name of the object's type.
TYPE_CASES = {
    "deepcopy": lambda make, inner, wrap: copy.deepcopy(wrap(inner)),
    "pickle": lambda make, inner, wrap: pickle.loads(pickle.dumps(wrap(inner))),
    "subclassable": lambda make, inner, wrap: wrap(inner, type("Sub", (make,), {})),
    "clipnorm_inner": lambda make, inner, wrap: wrap(type(inner)(0.1, clipnorm=1.0)),
    "clipvalue_inner": lambda make, inner, wrap: wrap(type(inner)(0.1, clipvalue=1.0)),
    "kw": lambda make, inner, wrap: make(optimizer=inner, loss_scale="dynamic"),
    "kw_inner_optimizer": lambda make, inner, wrap: make(inner_optimizer=inner),
    "kw_optimizer": lambda make, inner, wrap: make(optimizer=inner),
    "kw_stable_style": lambda make, inner, wrap: make(inner, dynamic=True),
    "missing_loss_scale": lambda make, inner, wrap: make(inner),
    "no_args": lambda make, inner, wrap: make(),
    "wrap_after_failed_wrap": _wrap_after_failure,
    "wrap_lso": lambda make, inner, wrap: wrap(wrap(inner)),
    "wrap_same_inner_twice": _wrap_again,
}

OTHER_CASES = {
    "isinstance_Optimizer": lambda make, inner, wrap: isinstance(
        wrap(inner), _default_optimizer(inner)
    ),
    "custom_LossScale_subclass": _custom,
    "default_props": lambda make, inner, wrap: _properties(make(inner)),
    "fixed_growth_props": lambda make, inner, wrap: _properties(make(inner, **_FIXED)),
    "two_opts_share_one_DynamicLossScale": _shared,
}


def replay(api, family, case):
    name, make, inner = case["case"], CLASSES[api], FAMILIES[family].SGD(0.1)

    def wrap(optimizer, make=make):
        if api == "experimental":
            return make(optimizer, "dynamic")
        return make(optimizer)

    if name in WRAPPED:
        return wrap(WRAPPED[name](family))
    if name in STABLE_CALLS:
        return float(make(inner, **STABLE_CALLS[name]).loss_scale)
    if name.startswith("loss_scale="):
        optimizer = make(inner, LOSS_SCALES[name.removeprefix("loss_scale=")])
        return {
            "loss_scale": float(optimizer.loss_scale),
            "type": type(optimizer).__name__,
        }
    if name in TYPE_CASES:
        return type(TYPE_CASES[name](make, inner, wrap)).__name__
    return OTHER_CASES[name](make, inner, wrap)


def _applies(case, family):
    return case["case"] not in ("class_repr", "repr", "str")


def same(actual, expected, case, family):
    # The class of `opt.loss_scale` is a case of `test_attributes.py`.
    expected = without(expected, "loss_scale_attr")
    return test_attributes.same(actual, expected, case, family)


SECTION = Section(
    "behaviour",
    "errors",
    replay,
    same,
    applies=_applies,
    differs=[
        # Bools as scales or steps.
        where(case="loss_scale=True", raises="ValueError"),
        # As until TensorFlow 2.3.
        where(
            api="experimental",
            case=[
                "custom_LossScale_subclass",
                "loss_scale=DynamicLossScale_mult4",
                "loss_scale=half",
                "loss_scale=zero",
                "pickle",
                "two_opts_share_one_DynamicLossScale",
            ],
            like="2.3.4",
        ),
        # Calls that failed with an unclear error.
        where(case="loss_scale=tensor", raises="ValueError"),
        # `isinstance(opt, tf.keras.optimizers.Optimizer)`.
        where(api="stable", case="isinstance_Optimizer", on="keras3", gives=True),
        where(
            api="experimental", case="isinstance_Optimizer", on="legacy", gives=False
        ),
        # Scales, multipliers and growth steps that are not positive and finite.
        where(case=["fixed_neg", "fixed_zero"], raises="ValueError"),
        # Calls of the stable optimizer that were refused.
        where(
            api="stable",
            case=["deepcopy", "kw_optimizer", "pickle", "wrap_after_failed_wrap"],
            gives="LossScaleOptimizer",
        ),
        where(api="stable", case="subclassable", gives="Sub"),
    ],
)


@pytest.mark.parametrize("replays", grouped(SECTION))
def test_equals_every_version(replays):
    check_all(replays)
