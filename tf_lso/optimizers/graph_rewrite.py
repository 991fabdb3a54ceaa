"""Turn on TensorFlow's rewrite of graphs to float16, with loss scaling by tf_lso."""

from typing import Any

import tensorflow as tf

from tf_lso.frameworks import keras_versions, log, tf_private
from tf_lso.optimizers import experimental
from tf_lso.optimizers.loss_scale_optimizer import LossScaleOptimizer
from tf_lso.scaling import gradients as gradients_lib
from tf_lso.scaling import loss_scale as loss_scale_lib
from tf_lso.scaling import loss_scale_configs

# Keep TensorFlow's own functions and class, because `tf_lso.install` may replace them later.
_tf_enable = tf.compat.v1.mixed_precision.enable_mixed_precision_graph_rewrite
_tf_disable = tf.compat.v1.mixed_precision.disable_mixed_precision_graph_rewrite
_TFWrapper = tf.compat.v1.mixed_precision.MixedPrecisionLossScaleOptimizer


class MixedPrecisionLossScaleOptimizer(_TFWrapper):  # type: ignore[misc, valid-type]
    """An optimizer that adds loss scaling to an optimizer of `tf.compat.v1.train`.

    If a gradient is not finite, the step is skipped, and `global_step` does not count the
    step.

    Args:
      opt: the `tf.compat.v1.train.Optimizer` to wrap.
      loss_scale: "dynamic", a Python int or float of at least 1, or a `LossScale`.

    Raises:
      ValueError: if `opt` is not an optimizer of `tf.compat.v1.train` or already scales the
        loss, or `loss_scale` is None or not a loss scale.

    Example:
    >>> import tensorflow as tf
    >>> import tf_lso
    >>> opt = tf_lso.compat.v1.mixed_precision.MixedPrecisionLossScaleOptimizer(
    ...     tf.compat.v1.train.GradientDescentOptimizer(0.25), loss_scale=8.)
    >>> x = tf.Variable(1.0)
    >>> _ = opt.minimize(lambda: x ** 2, var_list=[x])
    >>> float(x)
    0.5

    Source: `tf.compat.v1.mixed_precision.MixedPrecisionLossScaleOptimizer` of
    TensorFlow 2.0-2.15.
    """

    def __init__(self, opt, loss_scale):
        if not isinstance(opt, tf.compat.v1.train.Optimizer):
            raise ValueError(
                "'opt' must be an instance of tf.compat.v1.train.Optimizer, but got: "
                f"{opt!r}. For optimizers of Keras use tf_lso.LossScaleOptimizer."
            )
        if isinstance(opt, _TFWrapper):
            raise ValueError(
                "'opt' must not be a MixedPrecisionLossScaleOptimizer, since the loss "
                f"would be scaled twice, but got: {opt!r}."
            )
        if loss_scale is None:
            raise ValueError(
                "'loss_scale' cannot be None. Pass 'dynamic', a number, or a LossScale."
            )
        # The constructor of `_TFWrapper` accepts only TensorFlow's loss scales, so skip it.
        tf.compat.v1.train.Optimizer.__init__(
            self, tf_private.uses_locking(opt), opt.get_name()
        )
        self._optimizer = opt
        self._loss_scale = loss_scale_configs.get(loss_scale)
        tf_private.track(self, opt, "base_optimizer")
        tf_private.track(self, self._loss_scale, "loss_scale")

    # TensorFlow's wrapper calls the methods below. test_graph_rewrite.py runs all of them.

    def _doing_dynamic_loss_scaling(self):
        return not isinstance(self._loss_scale, loss_scale_lib.FixedLossScale)

    def _unscale_grads(self, grads):
        return gradients_lib.unscale_gradients(grads, self._loss_scale())

    def variables(self):
        """Return a list of the variables of the inner optimizer and of the loss scale."""
        state = [variable for _, variable in self._loss_scale.named_variables()]
        return [*self._optimizer.variables(), *state]


def _wrap(opt, loss_scale):
    if isinstance(opt, LossScaleOptimizer):
        raise ValueError(
            f"'opt' must not be a {type(opt).__name__}, but got: {opt!r}. "
            "enable_mixed_precision_graph_rewrite() wraps the optimizer itself."
        )
    if isinstance(opt, tf.compat.v1.train.Optimizer):
        return MixedPrecisionLossScaleOptimizer(opt, loss_scale)
    try:
        return experimental.LossScaleOptimizer(opt, loss_scale)
    except TypeError as error:
        raise ValueError(
            "'opt' must be an optimizer of Keras or of tf.compat.v1.train, but got: "
            f"{opt!r}."
        ) from error


def enable_mixed_precision_graph_rewrite(opt: Any, loss_scale: Any = "dynamic") -> Any:
    """Turn on TensorFlow's rewrite of graphs to float16, and return a wrapped optimizer.

    The rewrite affects functions that `tf.function` and `fit` trace after this call, on GPUs
    and on CPUs that compute in float16 (AVX512-FP16). It has no effect in eager mode or on
    other CPUs. The first steps may overflow and be skipped.

    Args:
      opt: an optimizer of Keras 3, tf_keras or `tf.compat.v1.train`.
      loss_scale: "dynamic", a Python int or float of at least 1, or a `LossScale`.

    Returns:
      A LossScaleOptimizer or a MixedPrecisionLossScaleOptimizer around `opt`.

    Raises:
      ValueError: if `opt` is not an optimizer or already scales the loss, `loss_scale` is
        not a loss scale, or the global policy is a mixed precision policy. In these cases
        the rewrite is not turned on.

    Example:
    >>> import tensorflow as tf
    >>> import tf_lso
    >>> experimental = tf_lso.train.experimental
    >>> opt = experimental.enable_mixed_precision_graph_rewrite(
    ...     tf.keras.optimizers.SGD(0.1), loss_scale=128)
    >>> float(opt.loss_scale)
    128.0
    >>> experimental.disable_mixed_precision_graph_rewrite()

    Source: `tf.train.experimental.enable_mixed_precision_graph_rewrite` of TensorFlow
    2.0-2.5. The current TensorFlow still has the function in `tf.compat.v1`.
    """
    keras = keras_versions.public(keras_versions.package_of_tensorflow())
    policy = keras.mixed_precision.global_policy()
    if policy.compute_dtype != policy.variable_dtype:
        raise ValueError(
            "The mixed precision graph rewrite cannot be turned on, because the global "
            f"dtype policy is {policy.name!r}, and both compute in float16. Remove one "
            "of the two calls; policies also work in eager mode."
        )
    wrapped = _wrap(opt, loss_scale)
    # Only `_tf_enable` sets the flag that dtype policies check. The optimizer, which the
    # function requires, is not used afterwards. The log filter hides the function's warning
    # that TensorFlow's own loss scale is deprecated.
    logger = log.logger()
    logger.addFilter(_is_of_use)
    try:
        _tf_enable(tf.compat.v1.train.GradientDescentOptimizer(0.0), 1.0)
    finally:
        logger.removeFilter(_is_of_use)
    logger.info(
        "The mixed precision graph rewrite is on: functions traced from now on compute "
        "in float16 if TensorFlow finds it safe. Eager steps do not."
    )
    return wrapped


def _is_of_use(record):
    return "FixedLossScale" not in record.getMessage()


def disable_mixed_precision_graph_rewrite() -> None:
    """Turn off TensorFlow's rewrite of graphs to float16.

    Optimizers that `enable_mixed_precision_graph_rewrite` has wrapped still scale the loss.

    Source: `tf.train.experimental.disable_mixed_precision_graph_rewrite` of TensorFlow
    2.0-2.5. The current TensorFlow still has the function in `tf.compat.v1`.
    """
    _tf_disable()
