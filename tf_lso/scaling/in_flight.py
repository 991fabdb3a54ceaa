"""The scale of gradients that pass from one function to another.

No Python runs in a traced function, so a variable tells other functions what it scaled.
"""

import tensorflow as tf


class InFlight:
    """The scale of gradients whose loss another function has scaled.

    Two float32 numbers. The first is the scale. It is positive if `scale_loss` scaled
    the loss, so that the apply must unscale. It is negative if `get_scaled_loss` did, or
    if the program has unscaled the gradients. It is 0 at the start. The second number is
    1 from the scaling of a loss to its apply, then 0.
    """

    def __init__(self):
        with tf.init_scope():
            # Each replica has its own value, and the values are never aggregated.
            self.variable = tf.Variable(
                [0.0, 0.0],
                name="scale_in_flight",
                trainable=False,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            )

    def read(self):
        """Return the two numbers, a float32 tensor."""
        return tf.convert_to_tensor(self.variable)

    def set(self, numbers):
        """Set the two numbers: a tensor that `read` returned, or a list."""
        self.variable.assign(numbers)

    def open(self, scale, by_apply):
        """Note that a loss was scaled.

        Args:
          scale: float32 scalar tensor.
          by_apply: whether the apply must unscale its gradients.
        """
        self.set(tf.stack([scale if by_apply else -scale, 1.0]))

    def unscaled(self):
        """Note that the program has unscaled the gradients."""
        scale, is_open = tf.unstack(self.read())
        self.set(tf.stack([-tf.abs(scale), is_open]))

    def close(self):
        """Note that the gradients were applied; a second apply may follow."""
        self.set(self.read() * [1.0, 0.0])

    def divisor(self):
        """Return what the apply must divide by, a float32 scalar tensor."""
        scale = self.read()[0]
        return tf.where(scale > 0, scale, 1.0)

    def scale(self, otherwise):
        """Return what the loss was multiplied by, or `otherwise` if none was."""
        scale = tf.abs(self.read()[0])
        return tf.where(scale > 0, scale, otherwise)
