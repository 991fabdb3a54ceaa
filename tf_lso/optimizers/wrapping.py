"""Wrap an optimizer if the model that it trains needs a loss scale.

Whether a model needs a loss scale depends on the policies of the model and of its layers.
Keras's own `compile` checks only the policy of the model, and ignores the loss scales of
experimental policies.
"""

from typing import Any

from tf_lso.frameworks import keras2_private, layers, log
from tf_lso.optimizers import binding, experimental, loss_scale_optimizer, validation

_once = log.Once()

# Stands for tf_lso's default loss scale, if a float16 policy has no attribute `loss_scale`.
DEFAULT = "default"


def wrap(optimizer: Any, model: Any) -> Any:
    """Wrap an optimizer if the model needs a loss scale.

    `compile` wraps only the optimizer that the program passes to `compile`. For other
    optimizers, call this function: in custom training loops, in models that override
    `compile`, and in models with several optimizers.

    Args:
      optimizer: an optimizer of Keras 3 or Keras 2. It may be a LossScaleOptimizer.
      model: the model or layer whose variables the optimizer updates.

    Returns:
      A `LossScaleOptimizer` around `optimizer` if the model or any layer in the model
      computes in float16. If a policy of these layers has a loss scale, the
      LossScaleOptimizer uses this loss scale. The function returns `optimizer` itself if no
      layer computes in float16, if the policies have the loss scale None, or if
      `optimizer` already scales the loss.

    Raises:
      TypeError: if `optimizer` is not an optimizer, or `model` is not a model or layer.

    Example:
    >>> import tensorflow as tf
    >>> import tf_lso
    >>> model = tf.keras.Sequential([tf.keras.layers.Dense(1, dtype="mixed_float16")])
    >>> opt = tf_lso.wrap(tf.keras.optimizers.SGD(0.1), model)
    >>> type(opt).__name__, tf_lso.wrap(opt, model) is opt
    ('LossScaleOptimizer', True)

    Source: tf_lso adds this; TensorFlow never had it. `compile` of TensorFlow 2.1-2.15
    wrapped the optimizer of a model whose own policy was mixed_float16.
    """
    binding.require_family(optimizer)
    loss_scale = loss_scale_of(model)
    if validation.scales_the_loss(optimizer):
        if loss_scale not in (None, DEFAULT):
            _warn_of_two_scales(optimizer, loss_scale)
        return optimizer
    if loss_scale is None:
        return optimizer
    # A LossScaleOptimizer refuses an optimizer with the mark of another wrapper. But a program
    # may compile a model again with the same optimizer, as in Keras 3. The earlier wrapper
    # still works, because each wrapper scales and unscales its own steps.
    keras2_private.unmark(optimizer)
    if loss_scale is DEFAULT:
        return loss_scale_optimizer.LossScaleOptimizer(optimizer)
    return experimental.LossScaleOptimizer(optimizer, loss_scale)


def loss_scale_of(model):
    """Return the loss scale that a model needs: a `LossScale`, `DEFAULT` or None.

    If the model's own policy has a loss scale, the result is this loss scale. Otherwise the
    policies of the float16 layers determine the result. But if the model itself computes in
    float16 and its policy has the loss scale None, the result is None.
    """
    policies = [layer.dtype_policy for layer in float16_layers(model)]
    own = model.dtype_policy
    if getattr(own, "loss_scale", None) is not None or (
        own in policies and hasattr(own, "loss_scale")
    ):
        return own.loss_scale
    scales = [getattr(policy, "loss_scale", DEFAULT) for policy in policies]
    named = [scale for scale in scales if scale not in (None, DEFAULT)]
    return next(iter(named), DEFAULT if DEFAULT in scales else None)


def float16_layers(model):
    """Return the layers that compute in float16. The model itself may be one of them."""
    return [
        layer for layer in layers.all_layers(model) if layer.compute_dtype == "float16"
    ]


def _warn_of_two_scales(optimizer, loss_scale):
    own = getattr(optimizer, "loss_scale_state", None)
    if own is loss_scale or repr(own) == repr(loss_scale):
        return
    _once.warn(
        f"compile() uses the loss scale of its optimizer, {own!r}, but the model's policy "
        f"has another, {loss_scale!r}. Give only one of them: an optimizer that is not "
        "wrapped, or a policy with loss_scale=None."
    )


def warn_if_not_scaled(optimizer, model, name):
    """Warn if a model needs a loss scale and its optimizer does not scale the loss."""
    if loss_scale_of(model) is None or validation.scales_the_loss(optimizer):
        return
    # Keras 3 itself scales the loss by this factor.
    if getattr(optimizer, "loss_scale_factor", None):
        return
    found = [layer.name for layer in float16_layers(model) if layer is not model]
    shown = ", ".join(found[:3]) + (", ..." if len(found) > 3 else "")
    _once.warn(
        f"{name} ({type(optimizer).__name__}) scales no loss, but layers that it trains "
        f"may compute in float16 ({shown}), where small gradients become 0. Wrap it: "
        "tf_lso.wrap(optimizer, model), and scale the loss: optimizer.get_scaled_loss, "
        "then get_unscaled_gradients. See `tf-lso help scales-no-loss`"
    )
