"""One optimizer and one variable, which show by which scale each gradient was divided.

The loss is 2x and the learning rate is 1, so a correct step subtracts 2 from x. All numbers are
powers of two, so the results are exact.
"""

import concurrent.futures
import contextlib

import tensorflow as tf

from tests.families import copies, wrapped

# The methods that scale a loss. Each one stands for its protocol.
LEGACY, KERAS3 = "get_scaled_loss", "scale_loss"
METHODS = [LEGACY, KERAS3]
OTHER = {LEGACY: KERAS3, KERAS3: LEGACY}
NAN = float("nan")


class Bench:
    """An optimizer, its variable `x`, and methods for the calls that programs make."""

    def __init__(self, family, strategy=None):
        self.strategy = strategy
        with strategy.scope() if strategy else contextlib.nullcontext():
            self.optimizer = wrapped(family, "SGD", 1.0)
            self.x = tf.Variable(0.0, name="x")
            self.optimizer.build([self.x])
        self.replicas = strategy.num_replicas_in_sync if strategy else 1

    @property
    def steps(self):
        """How many correct steps lead to the value of x, which all replicas must have."""
        (value,) = {float(copy) for copy in copies(self.x)}
        return value / -2.0 / self.replicas

    def scaled(self, method, factor=1.0):
        """Return the gradient of a loss that `method` scaled. The gradient is scaled, too."""
        with tf.GradientTape() as tape:
            loss = getattr(self.optimizer, method)(2.0 * self.x * factor)
        return tape.gradient(loss, self.x)

    def unscale(self, gradient):
        return self.optimizer.get_unscaled_gradients([gradient])[0]

    def gradient(self, method, factor=1.0):
        """Return the gradient that programs with this `method` pass to `apply_gradients`.

        With `get_scaled_loss` the gradient is unscaled. With `scale_loss` it is scaled.
        """
        gradient = self.scaled(method, factor)
        return gradient if method == KERAS3 else self.unscale(gradient)

    def apply(self, gradient):
        self.optimizer.apply_gradients([(gradient, self.x)])

    def step(self, method, factor=1.0):
        self.apply(self.gradient(method, factor))

    def drop_scaled_loss(self):
        """Drop the pending loss in the way that the error messages advise."""
        self.optimizer.get_unscaled_gradients([])

    def assign_scale(self, value):
        """Change the scale as a restored checkpoint does, without a method of the optimizer."""
        self.optimizer.loss_scale_state._current_loss_scale.assign(value)


def in_thread(function, *args):
    """Call a function in a new thread, and return the result after the thread has ended."""
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        return threads.submit(function, *args).result()
