"""The optimizers that are compared, each as two functions: scale a loss, and apply."""

import time
from typing import Any, NamedTuple

import keras
import tensorflow as tf
import tf_keras

import tf_lso
from tools.benchmarks import plan

_INNER = {
    "keras3": keras.optimizers,
    "legacy": tf_keras.optimizers.legacy,
    "new": tf_keras.optimizers,
}
# Far from overflow, and from denormal numbers, over any number of steps measured.
_LEARNING_RATE = 1e-4
_SCALE = 2.0**15


class Candidate(NamedTuple):
    """What a candidate does to a loss, and with gradients; and what to say of it."""

    scale_loss: Any
    apply: Any
    note: str | None = None


def make(name, family, momentum, variables, mode, gradients):
    """A new `Candidate`, with its state made; call it in the scope of the strategy.

    Args:
      name: one of `plan.candidates_of(family)`.
      family: name of the optimizer's family.
      mode: name of the mode of execution.
      momentum: that of the inner SGD.
      variables: the variables to update.
      gradients: such as will be applied, for the floor to try its checks on.
    """
    inner = _INNER[family].SGD(_LEARNING_RATE, momentum=momentum)
    optimizer = _wrapped(name, family, inner)
    # Before the first step: Keras 3's own cannot be built inside strategy.run. The
    # legacy optimizers of tf_keras have nothing to build.
    for part in dict.fromkeys((inner, optimizer)):
        if family != "legacy" and hasattr(part, "build"):
            part.build(variables)

    def apply(gradients, variables):
        optimizer.apply_gradients(zip(gradients, variables))

    def unscale_and_apply(gradients, variables):
        apply(optimizer.get_unscaled_gradients(gradients), variables)

    if name == plan.FLOOR:
        check = _cheapest(mode, gradients)
        return Candidate(_as_it_is, _after(check, mode, apply), check)
    if name == plan.BARE:
        return Candidate(_as_it_is, apply)
    if family == "keras3" and name != plan.LEGACY_PROTOCOL:
        return Candidate(optimizer.scale_loss, apply)
    return Candidate(optimizer.get_scaled_loss, unscale_and_apply)


def _as_it_is(loss):
    return loss


def _wrapped(name, family, inner):
    if name in (plan.BARE, plan.FLOOR):
        return inner
    if name == plan.PEER:
        own = keras.optimizers if family == "keras3" else tf_keras.mixed_precision
        return own.LossScaleOptimizer(inner, initial_scale=_SCALE)
    dynamic = name != plan.FIXED
    return tf_lso.LossScaleOptimizer(inner, dynamic=dynamic, initial_scale=_SCALE)


# --- The floor: the least that a check and a rescaling can cost. Each gradient is read
# once to check it, and read and written once to rescale it, by the TensorFlow operations
# that are fastest where it is measured. That is no exact verdict, and skips nothing.


def _dot(values):
    flat = tf.reshape(values, [-1])
    return tf.tensordot(flat, flat, 1)


# A NaN or an infinity anywhere reaches each of these sums.
_CHECKS = {
    "L2Loss": lambda values: tf.raw_ops.L2Loss(t=values),
    "reduce_sum": tf.reduce_sum,
    "dot": _dot,
    "is_finite": lambda values: tf.cast(
        tf.reduce_all(tf.math.is_finite(values)), tf.float32
    ),
}
_TRIALS = 5
_TRIED = 8  # gradients, about


def _passes(check):
    """A function of gradients: whether all are finite, and they divided by a number."""
    # Not multiplied: TensorFlow would multiply the factor and the learning rate of
    # Keras 3's SGD first, and then no gradient is rescaled. Made outside of the graph,
    # which would multiply by the reciprocal of a constant.
    scale = tf.constant(2.0**15)

    def rescaled(gradient):
        if not isinstance(gradient, tf.IndexedSlices):
            return gradient / scale
        values = gradient.values / scale
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)

    def check_and_rescale(gradients):
        sums = [_CHECKS[check](_values(gradient)) for gradient in gradients]
        return tf.math.is_finite(tf.add_n(sums)), list(map(rescaled, gradients))

    return check_and_rescale


def _cheapest(mode, gradients):
    """The name of the check that is fastest in a mode on some of such gradients.

    The largest are among them. XLA would compile all for long.
    """
    by_size = sorted(gradients, key=lambda g: -tf.size(_values(g)).numpy())
    tried = by_size[:: max(1, len(by_size) // _TRIED)]

    def least_seconds(name):
        function = tf.function(_passes(name), jit_compile=mode == "xla" or None)
        function(tried)  # trace
        trials = []
        for _ in range(_TRIALS):
            start = time.perf_counter()
            function(tried)
            trials.append(time.perf_counter() - start)
        return min(trials)

    return min(_CHECKS, key=least_seconds)


def _after(check, mode, apply):
    """`apply` after the check and the rescaling."""
    check_and_rescale = _passes(check)
    if mode == "eager":  # where the floor, too, is one traced function
        check_and_rescale = tf.function(check_and_rescale)

    def checked(gradients, variables):
        verdict, rescaled = check_and_rescale(gradients)
        apply(rescaled, variables)
        # Returned by the step, so that no graph optimization takes the check away.
        return verdict

    return checked


def _values(gradient):
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
