"""The optimizers that are compared, each as two functions: scale a loss, and apply."""

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


def make(name, family, momentum, variables, mode):
    """Two functions of a new candidate: one scales a loss, one applies gradients.

    Call this in the scope of the strategy. `name` is one of `plan.candidates_of(family)`,
    `momentum` that of the inner SGD, and `variables` are those to update.
    """
    inner = _INNER[family].SGD(_LEARNING_RATE, momentum=momentum)
    optimizer = _wrapped(name, family, inner)
    if family != "legacy":  # which has nothing to build
        # Before the first step: Keras 3's own cannot be built inside strategy.run.
        optimizer.build(variables)

    def apply(gradients, variables):
        optimizer.apply_gradients(zip(gradients, variables))

    def unscale_and_apply(gradients, variables):
        apply(optimizer.get_unscaled_gradients(gradients), variables)

    if optimizer is inner:
        checks = name == plan.FLOOR
        return lambda loss: loss, _after_a_check(apply, mode) if checks else apply
    if family == "keras3" and name != plan.LEGACY_PROTOCOL:
        return optimizer.scale_loss, apply
    return optimizer.get_scaled_loss, unscale_and_apply


def _wrapped(name, family, inner):
    if name in (plan.BARE, plan.FLOOR):
        return inner
    if name == plan.PEER:
        own = keras.optimizers if family == "keras3" else tf_keras.mixed_precision
        return own.LossScaleOptimizer(inner, initial_scale=_SCALE)
    dynamic = name != plan.FIXED
    return tf_lso.LossScaleOptimizer(inner, dynamic=dynamic, initial_scale=_SCALE)


def _after_a_check(apply, mode):
    """`apply` after the least that a check and a rescaling can cost.

    Each gradient is read once to check it, and read and written once to rescale it. The
    check is not exact, and it skips nothing.
    """
    # Not multiplied: TensorFlow would multiply the factor and the learning rate of
    # Keras 3's SGD first, and then no gradient is rescaled. Made outside of the graph,
    # which would multiply by the reciprocal of a constant.
    scale = tf.constant(_SCALE)

    def check_and_rescale(gradients):
        # A NaN or an infinity anywhere reaches the sum, the fastest of all checks.
        sums = [tf.reduce_sum(getattr(g, "values", g)) for g in gradients]
        return tf.math.is_finite(tf.add_n(sums)), [_divided(g) for g in gradients]

    def _divided(gradient):
        if not isinstance(gradient, tf.IndexedSlices):
            return gradient / scale
        values = gradient.values / scale
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)

    if mode == "eager":  # where this, too, is one traced function
        check_and_rescale = tf.function(check_and_rescale)

    def checked(gradients, variables):
        verdict, rescaled = check_and_rescale(gradients)
        apply(rescaled, variables)
        # Returned by the step, so that no graph optimization takes the check away.
        return verdict

    return checked
