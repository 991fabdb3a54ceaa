"""Replays constructor calls, right and wrong, and what Python asks of any object.

`replay` takes (make, family, case), where `make` is the class that is called.
"""

import copy
import pickle

import numpy as np
import tensorflow as tf

import tf_lso
from tests.families import CURRENT, FAMILIES, keras2
from tests.golden import encoding
from tf_lso.keras.mixed_precision import experimental

OURS = {
    "stable": tf_lso.LossScaleOptimizer,
    "experimental": experimental.LossScaleOptimizer,
}
REFERENCE = keras2.mixed_precision.LossScaleOptimizer

# What the experimental class takes beside the optimizer, where a case is not about it.
_MORE = {"stable": (), "experimental": ("dynamic",)}


class NotOpt:
    """No optimizer."""


# --- Arguments of a constructor call around SGD(0.1), without the optimizer.

STABLE_CALLS = {
    "dynamic_DynamicLossScale": lambda: {"dynamic": tf_lso.DynamicLossScale()},
    "dynamic_None": lambda: {"dynamic": None},
    "dynamic_growth_str_bad": lambda: {"dynamic_growth_steps": "abc"},
    "dynamic_int_1": lambda: {"dynamic": 1},
    "dynamic_np_bool": lambda: {"dynamic": np.bool_(True)},
    "dynamic_positional_float": lambda: {"dynamic": 128.0},
    "dynamic_scale_str_bad": lambda: {"initial_scale": "abc"},
    "dynamic_str": lambda: {"dynamic": "dynamic"},
    "dynamic_tensor": lambda: {"dynamic": tf.constant(True)},
    "fixed_half": lambda: {"dynamic": False, "initial_scale": 0.5},
    "fixed_neg": lambda: {"dynamic": False, "initial_scale": -2.0},
    "fixed_no_initial": lambda: {"dynamic": False},
    "fixed_no_initial_with_growth": lambda: {
        "dynamic": False,
        "dynamic_growth_steps": 3,
    },
    "fixed_str_bad": lambda: {"dynamic": False, "initial_scale": "abc"},
    "fixed_str_num": lambda: {"dynamic": False, "initial_scale": "4"},
    "fixed_tensor": lambda: {"dynamic": False, "initial_scale": tf.constant(4.0)},
    "fixed_with_growth": lambda: {
        "dynamic": False,
        "initial_scale": 4.0,
        "dynamic_growth_steps": 3,
    },
    "fixed_zero": lambda: {"dynamic": False, "initial_scale": 0.0},
    "kw_loss_scale": lambda: {"loss_scale": "dynamic"},
}

LOSS_SCALES = {
    "DynamicLossScale": lambda: tf_lso.DynamicLossScale(8.0, 3),
    "DynamicLossScale_mult4": lambda: tf_lso.DynamicLossScale(8.0, 3, 4.0),
    "FixedLossScale": lambda: tf_lso.FixedLossScale(8.0),
    "None": lambda: None,
    "True": lambda: True,
    "bogus_str": lambda: "bogus",
    "dict": lambda: {"class_name": "FixedLossScale", "config": {"loss_scale_value": 8}},
    "dynamic": lambda: "dynamic",
    "float": lambda: 8.0,
    "half": lambda: 0.5,
    "int": lambda: 8,
    "list": lambda: [8],
    "np_float32": lambda: np.float32(8.0),
    "np_float64": lambda: np.float64(8.0),
    "object": NotOpt,
    "tensor": lambda: tf.constant(8.0),
    "zero": lambda: 0,
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


# --- Other cases: functions of (make, inner, more), `more` of `_MORE`.


def _type_of(value):
    return type(value).__name__


def _subclass(make, inner, more):
    class Sub(make):
        pass

    return _type_of(Sub(inner, *more))


def _wrap_again(make, inner, more):
    make(inner, *more)
    return _type_of(make(inner, *more))


def _wrap_after_failure(make, inner, more):
    try:
        make(inner, dynamic=False)
    except ValueError:
        return _type_of(make(inner, *more))
    raise AssertionError("It has to fail.")


def _properties(optimizer):
    names = ("dynamic", "loss_scale", "dynamic_counter", "initial_scale")
    return [getattr(optimizer, name) for name in (*names, "dynamic_growth_steps")]


def _shared(make, inner, more):
    scale = tf_lso.DynamicLossScale(8.0, increment_period=1)
    first, second = make(inner, scale), make(type(inner)(0.1), scale)
    first.apply_gradients([(tf.constant(1.0), tf.Variable(1.0))])
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


def _custom(make, inner, more):
    variable = tf.Variable(1.0)
    returned = make(inner, _Constant()).minimize(lambda: 2.0 * variable, [variable])
    return {"ret": returned, "v": float(variable.numpy())}


OTHER = {
    "class_repr": lambda make, inner, more: repr(make),
    "deepcopy": lambda make, inner, more: _type_of(copy.deepcopy(make(inner, *more))),
    "isinstance_Optimizer": lambda make, inner, more: isinstance(
        make(inner, *more), _default_optimizer(inner)
    ),
    "pickle": lambda make, inner, more: _type_of(
        pickle.loads(pickle.dumps(make(inner, *more)))
    ),
    "repr": lambda make, inner, more: repr(make(inner, *more)),
    "str": lambda make, inner, more: str(make(inner, *more)),
    "subclassable": _subclass,
    "clipnorm_inner": lambda make, inner, more: _type_of(
        make(type(inner)(0.1, clipnorm=1.0), *more)
    ),
    "clipvalue_inner": lambda make, inner, more: _type_of(
        make(type(inner)(0.1, clipvalue=1.0), *more)
    ),
    "custom_LossScale_subclass": _custom,
    "default_props": lambda make, inner, more: _properties(make(inner)),
    "fixed_growth_props": lambda make, inner, more: _properties(
        make(inner, dynamic=False, initial_scale=4.0)
    ),
    "kw": lambda make, inner, more: _type_of(
        make(optimizer=inner, loss_scale="dynamic")
    ),
    "kw_inner_optimizer": lambda make, inner, more: _type_of(
        make(inner_optimizer=inner)
    ),
    "kw_optimizer": lambda make, inner, more: _type_of(make(optimizer=inner)),
    "kw_stable_style": lambda make, inner, more: _type_of(make(inner, dynamic=True)),
    "missing_loss_scale": lambda make, inner, more: _type_of(make(inner)),
    "no_args": lambda make, inner, more: _type_of(make()),
    "two_opts_share_one_DynamicLossScale": _shared,
    "wrap_after_failed_wrap": _wrap_after_failure,
    "wrap_lso": lambda make, inner, more: _type_of(make(make(inner, *more), *more)),
    "wrap_same_inner_twice": _wrap_again,
}


def _default_optimizer(inner):
    """What `tf.keras.optimizers.Optimizer` is in the Keras of `inner`."""
    family = CURRENT if isinstance(inner, FAMILIES[CURRENT].Optimizer) else "new"
    return FAMILIES[family].Optimizer


def _of_loss_scale(optimizer):
    return {
        "loss_scale": float(optimizer.loss_scale),
        "loss_scale_attr": _type_of(optimizer.loss_scale),
        "type": _type_of(optimizer),
    }


def replay(make, family, case):
    """What the record holds for a case of `errors`."""
    name, more = case["case"], _MORE[case["api"]]
    inner = FAMILIES[family].SGD(0.1)

    def run():
        if name in WRAPPED:
            return make(WRAPPED[name](family), *more)
        if name in STABLE_CALLS:
            return float(make(inner, **STABLE_CALLS[name]()).loss_scale)
        if name.startswith("loss_scale="):
            value = LOSS_SCALES[name.removeprefix("loss_scale=")]()
            return _of_loss_scale(make(inner, value))
        return OTHER[name](make, inner, more)

    return encoding.plain(encoding.attempt(run))
