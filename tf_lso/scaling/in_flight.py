"""The scale of gradients that pass from one function to another.

No Python runs in a traced function, so a variable tells other functions what it scaled.
"""

import dataclasses

import tensorflow as tf

from tf_lso import pages
from tf_lso.scaling import report

_MIXED = (
    "Gradients of losses with different scales or methods wait to be applied, and "
    "nothing tells which of them are these. Scale, unscale and apply in one function. "
    f"See {pages.troubleshooting('waiting-gradients')}"
)


@dataclasses.dataclass
class Pending:
    """Losses that were scaled and not applied yet, in numbers.

    Attributes:
      scale: float; see `InFlight`.
      is_open: bool, whether any wait.
      is_mixed: bool, whether their scales or protocols differ.
    """

    scale: float
    is_open: bool
    is_mixed: bool


class InFlight:
    """The scale of gradients whose loss another function has scaled.

    The scale of a loss counts as positive where `scale_loss` has scaled it and the apply
    must divide, and as negative where `get_scaled_loss` has, or the program has divided.

    Four float32 numbers: the sum of the scales of all losses that wait to be applied,
    the sum of their squares, their number, and the scale of those that were applied
    last. The sums tell whether the scales are equal, and one operation adds to them.
    """

    def __init__(self):
        with tf.init_scope():
            # Each replica has its own value, and the values are never aggregated.
            self.variable = tf.Variable(
                [0.0, 0.0, 0.0, 0.0],
                name="scales_in_flight",
                trainable=False,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            )

    def read(self):
        """Return the numbers, a float32 tensor."""
        return tf.convert_to_tensor(self.variable)

    def set(self, numbers):
        """Set the numbers to those that `read` returned."""
        self.variable.assign(numbers)

    def add(self, scale, by_apply):
        """Note that a loss was scaled.

        Args:
          scale: float32 scalar tensor.
          by_apply: whether the apply must unscale its gradients.
        """
        scale = scale if by_apply else -scale
        self.variable.assign_add(tf.stack([scale, scale * scale, 1.0, 0.0]))

    def unscaled(self):
        """Note that the program has divided the gradients."""
        total, squares, count, last = tf.unstack(self.read())
        self.set(tf.stack([-tf.abs(total), squares, count, -tf.abs(last)]))

    def close(self):
        """Note that the gradients were applied; a second apply may follow."""
        self.set(tf.stack([0.0, 0.0, 0.0, self._scale()]))

    def pending(self):
        """Return what waits now, a `Pending`. In eager code only."""
        total, squares, count, last = map(float, self.read().numpy())
        return Pending(
            total / count if count else last,
            count > 0,
            squares * count > 1.001 * total * total,
        )

    def _scale(self):
        total, squares, count, last = tf.unstack(self.read())
        scale = tf.where(count > 0, total / tf.maximum(count, 1.0), last)
        is_mixed = squares * count > 1.001 * total * total
        if not tf.executing_eagerly() and not report.in_xla():
            tf.debugging.Assert(~is_mixed, [_MIXED])
        # Where nothing can be raised, the step is skipped.
        return tf.where(is_mixed, float("nan"), scale)

    def divisor(self):
        """Return what the apply must divide by, a float32 scalar tensor."""
        scale = self._scale()
        return tf.where(scale <= 0, 1.0, scale)

    def scale(self, otherwise):
        """Return what the loss was multiplied by, or `otherwise` if none waits."""
        return tf.where(self.read()[2] > 0, tf.abs(self._scale()), otherwise)
