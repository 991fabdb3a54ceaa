"""Where a constructor call, right or wrong, has another outcome, and why.

Entries of `differences.Difference`, applied one after the other.
"""

import functools
import re

from tests.golden.differences import (
    FIRST_NEW,
    UNTIL_2_3,
    UNTIL_2_4,
    Difference,
    gives,
    raises,
)

_OF_2_4_TO_2_8 = ("2.4.4", "2.8.4")
_UNTIL_2_10 = (*UNTIL_2_4, "2.8.4", *FIRST_NEW)
_SINCE_2_9 = (*FIRST_NEW, "2.11.1", "2.15.1", "2.21-tf_keras")

_difference = functools.partial(Difference, "errors")


# --- What tf_lso gives.


def value(of):
    """The call returns this."""
    return lambda recorded, case: {"ok": of}


def _one_class(recorded, case):
    """The one class in place of the classes' names."""
    return _replaced(recorded) if "ok" in recorded else recorded


def _replaced(content):
    if isinstance(content, dict):
        return {key: _replaced(element) for key, element in content.items()}
    if isinstance(content, str):
        return re.sub(r"(Base)?LossScaleOptimizer(V\d)?", "LossScaleOptimizer", content)
    return content


def _object(recorded, case):
    """`opt.loss_scale` is the loss scale, where the call is no error."""
    dynamic = case["case"] in ("loss_scale=dynamic", "loss_scale=DynamicLossScale")
    name = "DynamicLossScale" if dynamic else "FixedLossScale"
    return gives(loss_scale_attr=name)(recorded, case)


MADE = value("LossScaleOptimizer")


# --- The rows of compat_docs/reference/differences.md, by how they begin.

ONE_CLASS = "The name of the class"
OBJECT = "`opt.loss_scale` of the experimental optimizer"
OPTIMIZER = "Wrapping what is no optimizer, in TensorFlow 2.0 to 2.3"
WRAPPED = "Wrapping a `LossScaleOptimizer`, or one optimizer twice, until 2.5"
NONE = "`loss_scale=None` in TensorFlow 2.0 and 2.1"
TENSOR = "A tensor as `loss_scale` of the experimental optimizer"
BELOW_ONE = "A number below 1 as `loss_scale` of the experimental optimizer"
OWN = "A `LossScale` of your own, or one whose `multiplier` is not 2"
SHARED = "One `DynamicLossScale` for two optimizers"
CLIPPING = "An inner optimizer that clips, in TensorFlow 2.0 to 2.3"
NOT_POSITIVE = "A scale that is 0, negative, infinite or NaN"
KEYWORD = "`optimizer=` as a keyword of the stable optimizer"
AFTER_FAILURE = "A constructor call that is refused"
COPY = "`copy.deepcopy`"
PICKLE = "`pickle`"
SUBCLASS = "Subclasses of the stable optimizer"
TEXT = "`repr(opt)`"
ISINSTANCE = "`isinstance(opt, tf.keras.optimizers.Optimizer)`"

DIFFERENCES = [
    _difference({}, "one class", _one_class, row=ONE_CLASS),
    _difference(
        {
            "case": tuple(
                f"loss_scale={name}"
                for name in (
                    "DynamicLossScale",
                    "FixedLossScale",
                    "True",
                    "dict",
                    "dynamic",
                    "float",
                    "int",
                    "np_float64",
                )
            )
        },
        "an object that is called as in 2.0-2.3 and is a tensor as in 2.4-2.8",
        _object,
        versions=_OF_2_4_TO_2_8,
        row=OBJECT,
    ),
    # --- The inner optimizer.
    _difference(
        {
            "api": "experimental",
            "case": tuple(
                f"wrap_{name}"
                for name in (
                    "None",
                    "class",
                    "int",
                    "object",
                    "str",
                    "v1_GradientDescent",
                )
            ),
        },
        "TypeError, as since 2.4",
        raises("TypeError"),
        message="'optimizer' must be an instance of .*, but got ",
        versions=UNTIL_2_3,
        row=OPTIMIZER,
    ),
    _difference(
        {"case": "wrap_lso"},
        "TypeError, as since 2.6",
        raises("TypeError"),
        message="'optimizer' must not be a LossScaleOptimizer",
        versions=UNTIL_2_4,
        row=WRAPPED,
    ),
    _difference(
        {"case": "wrap_same_inner_twice"},
        "ValueError, as since 2.6",
        raises("ValueError"),
        message="'optimizer' is already wrapped",
        versions=UNTIL_2_4,
        row=WRAPPED,
    ),
    _difference(
        {"case": ("clipnorm_inner", "clipvalue_inner")},
        "taken, as since 2.4",
        MADE,
        versions=UNTIL_2_3,
        row=CLIPPING,
    ),
    _difference(
        {"case": "wrap_after_failed_wrap"},
        "a corrected call must work",
        MADE,
        row=AFTER_FAILURE,
    ),
    _difference(
        {"case": "kw_optimizer"},
        "both names are accepted",
        MADE,
        row=KEYWORD,
    ),
    # --- The loss scale.
    _difference(
        {"case": ("fixed_neg", "fixed_zero")},
        "no gradient survives it",
        raises("ValueError"),
        message="'initial_scale' must be a positive and finite float32, but got: ",
        row=NOT_POSITIVE,
    ),
    _difference(
        {"case": ("loss_scale=half", "loss_scale=zero")},
        "as in 2.0-2.3",
        raises("ValueError"),
        message=r"loss_scale_value must be at least 1, but got: 0(\.5)?\.",
        versions=_OF_2_4_TO_2_8,
        row=BELOW_ONE,
    ),
    _difference(
        {"case": "loss_scale=None"},
        "ValueError, as since 2.2",
        raises("ValueError"),
        message="'loss_scale' cannot be None",
        versions=("2.1.4",),
        row=NONE,
    ),
    _difference(
        {"case": "loss_scale=tensor"},
        "the message shows the value",
        raises("ValueError"),
        message="identifier: <tf.Tensor: shape=.., dtype=float32, numpy=8.0>",
        row=TENSOR,
    ),
    _difference(
        {"case": "loss_scale=DynamicLossScale_mult4"},
        "taken, as in 2.0-2.3",
        value(
            {
                "loss_scale": 8.0,
                "loss_scale_attr": "DynamicLossScale",
                "type": "LossScaleOptimizer",
            }
        ),
        versions=_OF_2_4_TO_2_8,
        row=OWN,
    ),
    _difference(
        {"case": "custom_LossScale_subclass"},
        "taken, as in 2.0-2.3",
        value({"ret": None, "v": 0.800000011920929}),
        versions=_OF_2_4_TO_2_8,
        row=OWN,
    ),
    _difference(
        {"case": "two_opts_share_one_DynamicLossScale"},
        "used as it is, as in 2.0-2.3",
        value({"a": 16.0, "b": 16.0, "s": 16.0, "same_obj": True}),
        versions=_OF_2_4_TO_2_8,
        row=SHARED,
    ),
    # --- What Python asks of any object.
    _difference(
        {"case": ("repr", "str")},
        "shows the scale, the count and the inner optimizer",
        value("<LossScaleOptimizer around SGD, loss_scale=32768, dynamic_counter=0>"),
        row=TEXT,
    ),
    _difference(
        {"case": "deepcopy"},
        "copied, as until 2.12",
        MADE,
        versions=("2.15.1", "2.21-tf_keras"),
        row=COPY,
    ),
    _difference(
        {"case": "pickle"},
        "pickled with its state",
        MADE,
        row=PICKLE,
    ),
    _difference(
        {"api": "stable", "case": "subclassable"},
        "can be subclassed, as until 2.8",
        value("Sub"),
        versions=_SINCE_2_9,
        row=SUBCLASS,
    ),
    _difference(
        {"case": "isinstance_Optimizer"},
        "that class is the newer optimizers', as since 2.11",
        value(False),
        families=("legacy",),
        versions=_UNTIL_2_10,
        row=ISINSTANCE,
    ),
    _difference(
        {"case": "isinstance_Optimizer"},
        "that class is Keras 3's, which has no other family",
        value(True),
        families=("keras3",),
        row=ISINSTANCE,
    ),
]
