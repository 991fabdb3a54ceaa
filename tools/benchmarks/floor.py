"""The least that a check and a rescaling can cost: memory traffic, nearly alone.

Each gradient is read once to check it and read and written once to rescale it, by the
TensorFlow operations that are fastest where it is measured. What they compute is no
exact verdict, and nothing is skipped on it.
"""

import tensorflow as tf

from tools.benchmarks import measure, modes


def _dot(values):
    flat = tf.reshape(values, [-1])
    return tf.tensordot(flat, flat, 1)


# A NaN or an infinity anywhere reaches each of these sums.
CHECKS = {
    "L2Loss": lambda values: tf.raw_ops.L2Loss(t=values),
    "reduce_sum": tf.reduce_sum,
    "dot": _dot,
    "is_finite": lambda values: tf.cast(
        tf.reduce_all(tf.math.is_finite(values)), tf.float32
    ),
}
_TRIALS = 5
_TRIED = 8  # gradients, about


def passes(check):
    """A function of gradients: whether all are finite, and they divided by a number."""
    # Not multiplied: TensorFlow would multiply the factor and the learning rate of
    # Keras 3's SGD first, and then no gradient is rescaled. Made outside of the graph,
    # which would multiply by the reciprocal of a constant.
    scale = tf.constant(2.0**15)

    def check_and_rescale(gradients):
        sums = [CHECKS[check](_values(gradient)) for gradient in gradients]
        rescaled = [_rescaled(gradient, scale) for gradient in gradients]
        return tf.math.is_finite(tf.add_n(sums)), rescaled

    return check_and_rescale


def cheapest(mode, gradients):
    """The name of the check that is fastest in a mode on such gradients.

    It is tried on some of them, the largest among them: XLA compiles all for long.
    """
    by_size = sorted(gradients, key=lambda g: -tf.size(_values(g)).numpy())
    gradients = by_size[:: max(1, len(by_size) // _TRIED)]
    seconds = {}
    for name in CHECKS:
        function = tf.function(passes(name), jit_compile=mode == "xla" or None)
        function(gradients)  # trace
        trials = [
            measure.seconds(lambda f=function: f(gradients)) for _ in range(_TRIALS)
        ]
        seconds[name] = min(trials)
    return min(seconds, key=seconds.get)


def apply_with(check, mode, optimizer):
    """What applies gradients in the candidate "floor"."""
    check_and_rescale = modes.inside(mode, passes(check))

    def apply(gradients, variables):
        verdict, rescaled = check_and_rescale(gradients)
        optimizer.apply_gradients(zip(rescaled, variables))
        # Returned by the step, so that no graph optimization takes the check away.
        return verdict

    return apply


def _values(gradient):
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _rescaled(gradient, scale):
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient / scale
    return tf.IndexedSlices(
        gradient.values / scale, gradient.indices, gradient.dense_shape
    )
