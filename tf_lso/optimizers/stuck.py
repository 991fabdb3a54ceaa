"""Detect lost runs: all steps are skipped although the loss scale is at its minimum."""

from typing import Any

from tf_lso.frameworks import graphs
from tf_lso.optimizers import loss_scale_optimizer

_MOST = 5


def require_own(optimizer: Any, caller: str) -> Any:
    """Return `optimizer`, or raise TypeError if it is not a `tf_lso.LossScaleOptimizer`."""
    if isinstance(optimizer, loss_scale_optimizer.LossScaleOptimizer):
        return optimizer
    raise TypeError(
        f"{caller} needs an optimizer that scales the loss, a "
        f"tf_lso.LossScaleOptimizer, but got {optimizer!r}. Wrap it: "
        "tf_lso.LossScaleOptimizer(optimizer). If compile() wrapped it with Keras's class, "
        "pass a wrapped one to compile()."
    )


def check_patience(patience: int) -> int:
    if isinstance(patience, bool) or not isinstance(patience, int):
        raise TypeError(f"'patience' must be an int, but got: {patience!r}.")
    if patience < 1:
        raise ValueError(f"'patience' must be at least 1, but got: {patience!r}.")
    return patience


def message(optimizer: Any, steps: int) -> str:
    """Return the error message for an optimizer whose last `steps` steps were skipped."""
    found = optimizer.last_overflow
    names = ", ".join(f"{item.variable} ({item.kind})" for item in found[:_MOST])
    more = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
    if any("nan" in item.kind for item in found):
        advice = (
            "At this scale NaN most likely comes from the model or the data: look for it in "
            "the inputs, the loss and the weights."
        )
    else:
        advice = (
            "The gradients are infinite even at this scale: look for a layer that "
            "overflows float16, set `min_scale` lower, or lower the learning rate."
        )
    return (
        f"The last {steps} steps were all skipped, and the loss scale is at its minimum, "
        f"{float(optimizer.loss_scale):g}. The run is lost: nothing will change any more. "
        f"The gradients of these variables are not finite: {names}{more}. {advice} "
        "tf_lso.debugging.explain() finds the layer. See `tf-lso help stuck`"
    )


def raise_if_stuck(optimizer: Any, patience: int = 100) -> None:
    """Raise an error if all recent steps were skipped and the loss scale is at its minimum.

    Call this function in eager code of a training loop. Each call waits for the device, so
    call the function only sometimes, for instance every hundred steps.

    Args:
      optimizer: `tf_lso.LossScaleOptimizer`.
      patience: int, the number of consecutive skipped steps after which the run counts as
        lost. The loss scale needs to be at its minimum only at the last of these steps.
        Defaults to 100.

    Raises:
      TypeError: if `optimizer` is not a `tf_lso.LossScaleOptimizer`, or `patience` is not
        an int.
      ValueError: if `patience` is less than 1.
      RuntimeError: if the last `patience` steps were skipped and the loss scale is at its
        minimum, or if this function is called in a `tf.function`. In the first case the
        message names the variables whose gradients were not finite.

    Example:
    >>> import tensorflow as tf
    >>> import tf_lso
    >>> opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1))
    >>> tf_lso.raise_if_stuck(opt, patience=100)

    Source: tf_lso adds this; TensorFlow never had it.
    """
    require_own(optimizer, "raise_if_stuck()")
    check_patience(patience)
    graphs.require_eager("raise_if_stuck")
    steps = int(optimizer._skipped.stuck())
    if steps >= patience:
        raise RuntimeError(message(optimizer, steps))
