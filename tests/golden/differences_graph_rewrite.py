"""Where the graph rewrite is otherwise than a recorded version's, and why."""

import functools

from tests.golden.comparing import as_in
from tests.golden.differences import (
    UNTIL_2_3,
    UNTIL_2_4,
    Difference,
    gives,
    raises,
)

_difference = functools.partial(Difference, "graph_rewrite")
_as_in = functools.partial(as_in, section="graph_rewrite")

# --- The rows of compat_docs/reference/differences.md, by how they begin.

AFTER_POLICY = "The graph rewrite after any policy was set, in TensorFlow 2.0 to 2.2"
NEWER = "The graph rewrite with one of the newer optimizers"
AGAIN = "A `MixedPrecisionLossScaleOptimizer` around another"
BASES = "The base classes of `MixedPrecisionLossScaleOptimizer`"
WRAPPED = "The graph rewrite of a `LossScaleOptimizer` in TensorFlow 2.4 to 2.8"
NONE = "`loss_scale=None` in TensorFlow 2.0 and 2.1"
CLIPPING = "An inner optimizer that clips, in TensorFlow 2.0 to 2.3"
ONE_CLASS = "The name of the class"


def _enable(*optimizers, names=("v1", "v2"), loss_scales=("8", "default")):
    return tuple(
        f"enable_{name}({optimizer},{loss_scale})"
        for name in names
        for optimizer in optimizers
        for loss_scale in loss_scales
    )


_TAKEN = ("8", "Dyn", "default", "dynamic")
_GRAPH = tuple(
    f"MPLSO graph {name}Optimizer" for name in ("GradientDescent", "Momentum", "Adam")
)


def _one_class(recorded, case):
    if "ok" not in recorded or recorded["ok"]["type"].startswith("Mixed"):
        return recorded
    return gives(type="LossScaleOptimizer")(recorded, case)


def _with_ours(recorded, case):
    mro = recorded["ok"]["mro"]
    return gives(mro=[mro[0], *mro])(recorded, case)


DIFFERENCES = [
    # --- The wrapper.
    _difference(
        {"case": tuple(f"MPLSO(GradientDescent,{n})" for n in ("8", "Dyn", "dynamic"))},
        "isinstance of TensorFlow's own",
        _with_ours,
        row=BASES,
    ),
    _difference(
        {"case": "MPLSO(MPLSO)"},
        "the loss would be scaled twice",
        raises("ValueError"),
        message="scaled twice",
        row=AGAIN,
    ),
    _difference(
        {
            "case": (
                "MPLSO(GradientDescent,None)",
                *_enable("v1_GD", "keras_SGD", names=("v2",), loss_scales=("None",)),
            )
        },
        "says what to do",
        raises("ValueError"),
        message="loss_scale",
        versions=("2.1.4",),
        row=NONE,
    ),
    # --- The switch.
    _difference(
        {
            "case": (
                *_enable("keras_SGD", "v1_GD", names=("v1",), loss_scales=_TAKEN),
                "options_after_enable_v1",
                "policy_after_enable_v1",
            )
        },
        "only a mixed one is refused, as since 2.3",
        _as_in("2.3.4"),
        message="graph rewrite",
        versions=("2.1.4",),
        row=AFTER_POLICY,
    ),
    _difference(
        {"case": _enable("clipnorm")},
        "clipping follows unscaling",
        _as_in("2.4.4"),
        versions=UNTIL_2_3,
        row=CLIPPING,
    ),
    _difference(
        {"case": _enable("lso")},
        "refused, as before and after",
        raises("ValueError"),
        message="'opt' must not be a LossScaleOptimizer",
        versions=("2.4.4", "2.8.4"),
        row=WRAPPED,
    ),
    _difference(
        {"case": _enable("keras_new_SGD")},
        "it works with them",
        lambda recorded, case: as_in(
            "2.21-tf_keras",
            "graph_rewrite",
            {"case": case["case"].replace("keras_new_SGD", "keras_SGD")},
        )(recorded, case),
        row=NEWER,
    ),
    _difference(
        {"case": _enable("keras_SGD", "clipnorm", loss_scales=_TAKEN)},
        "one class",
        _one_class,
        versions=(*UNTIL_2_4, "2.8.4"),
        row=ONE_CLASS,
    ),
]
