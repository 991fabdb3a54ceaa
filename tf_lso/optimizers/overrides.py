"""What classes of users override: methods of the wrapper, and of the inner optimizer."""

import sys
from types import CodeType

from tf_lso import pages

# Methods that TensorFlow 2.4-2.15 called in `fit`, and Keras 3 does not call so.
LEGACY_METHODS = (
    "get_scaled_loss",
    "get_unscaled_gradients",
    "_compute_gradients",
    "minimize",
    "apply_gradients",
)

_DEPTH = (
    12  # frames between Keras's `train_step` and the caller of this module, at most
)


def overridden(cls, names=LEGACY_METHODS):
    """Return the names of the methods that a user's class has of its own, a list."""
    return [n for n in names if not getattr(cls, n).__module__.startswith("tf_lso.")]


def refuse_in_fit(cls, train_step: CodeType):
    """Raise RuntimeError if Keras 3's `train_step` runs, for a class that it would ignore.

    Args:
      cls: the class of the optimizer.
      train_step: the code of the method that `fit` calls.
    """
    names = overridden(cls)
    if not names:
        return
    frame = sys._getframe(1)
    for _ in range(_DEPTH):
        if frame is None:
            return
        if frame.f_code is train_step:
            raise RuntimeError(
                f"{cls.__name__} overrides {', '.join(names)}, which `fit` of Keras 3 does "
                "not call as TensorFlow 2.4-2.15 did. Override train_step() of the model "
                "and call them there, or set TF_USE_LEGACY_KERAS=1. "
                f"See {pages.troubleshooting('overrides-in-fit')}"
            )
        frame = frame.f_back


def own_aggregation(optimizer, base):
    """Return a user's own method that aggregates gradients, or None.

    Horovod's optimizers have one, under the name of OptimizerV2's.
    """
    for name in ("_aggregate_gradients", "aggregate_gradients"):
        method = getattr(type(optimizer), name, None)
        if method is not None and method is not getattr(base, name, None):
            return getattr(optimizer, name)
    return None


def dead_overrides(optimizer):
    """Return the names of a user's methods that only OptimizerV2 called, a list."""
    names = ("_resource_apply_dense", "_resource_apply_sparse")
    return [name for name in names if hasattr(type(optimizer), name)]
