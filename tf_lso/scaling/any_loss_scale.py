"""What every loss scale is, as programs see it; `loss_scale` has the two of TensorFlow."""

import abc
from typing import Any

import tensorflow as tf

from tf_lso import tf_private
from tf_lso.scaling import as_tensor, dynamic

# The base classes are found by a call, so mypy does not know them.
_Trackable: Any = tf_private.trackable()


class LossScale(
    as_tensor.AsTensor, tf_private.Dependencies, _Trackable, metaclass=abc.ABCMeta
):
    """Base class of the loss scales.

    A loss scale is a factor. The loss is multiplied by it and the gradients are divided
    by it, so that small float16 gradients do not become zero in between. Calling an
    instance returns the factor; `update` moves it after each step.

    Subclasses define `__call__`, `update` and `get_config`. An instance also serves as a
    float32 scalar tensor of its current value.

    Example:
    >>> import tensorflow as tf
    >>> import tf_lso
    >>> from tf_lso.keras.mixed_precision import experimental
    >>> class Constant(tf_lso.LossScale):
    ...     def __call__(self):
    ...         return tf.constant(64.0)
    ...     def update(self, grads):
    ...         return None, True
    ...     def get_config(self):
    ...         return {}
    >>> sgd = tf.keras.optimizers.SGD(0.1)
    >>> opt = experimental.LossScaleOptimizer(sgd, Constant())
    >>> float(opt.get_scaled_loss(tf.constant(2.0)))
    128.0

    Source: `tf.mixed_precision.experimental.LossScale` of TensorFlow 2.1-2.8.
    """

    def _add_weight(self, name, initial_value, dtype=None):
        """Add a variable that checkpoints store as `name`."""
        variable = dynamic.local_variable(initial_value, name, dtype)
        tf_private.track(self, variable, name)
        return variable

    def named_variables(self) -> list[tuple[str, tf.Variable]]:
        """Return the (checkpoint name, variable) pairs of the state, a list."""
        return [(name, v) for name, v in sorted(tf_private.children(self).items())]

    @abc.abstractmethod
    def __call__(self) -> tf.Tensor:
        """Return the current loss scale, a float32 scalar tensor."""

    @abc.abstractmethod
    def update(self, grads: Any) -> tuple[Any, Any]:
        """Move the loss scale after a step.

        May be called in replica and in cross-replica context.

        Args:
          grads: nested structure of unscaled gradients (tensors, `tf.IndexedSlices`,
            per-replica values); None is ignored.

        Returns:
          update_op: an op that moves the scale in a graph; None or a tensor in eager
            mode.
          should_apply_gradients: scalar bool tensor or Python bool. If False, the
            step must be skipped.
        """

    def stuck_steps(self) -> tf.Tensor:
        """Return the skipped steps in a row at the smallest scale, an int64 scalar."""
        return tf.constant(0, tf.int64)

    # Whether a step may judge the gradients itself and call `advance`. A class with an
    # `update` of its own judges in its own way.
    takes_verdicts = False

    @property
    def may_skip(self) -> bool:
        """Whether `update` may say that a step must be skipped."""
        return True

    @abc.abstractmethod
    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal loss scale, a dict."""

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "LossScale":
        """Make a loss scale from the arguments in `config`, which is not changed."""
        return cls(**config)
