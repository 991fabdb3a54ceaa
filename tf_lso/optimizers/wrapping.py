"""Wrap the optimizers that need a loss scale: the model's layers tell which.

Keras wraps for a model whose own policy is mixed_float16, whatever the layers' policies,
and knows no loss scale of an experimental one.
"""

from typing import Any

from tf_lso import log
from tf_lso.optimizers import binding, experimental, loss_scale_optimizer, validation

_once = log.Once()

DEFAULT = "default"  # a loss scale that no policy names


def wrap(optimizer: Any, model: Any) -> Any:
    """Wrap an optimizer where a model needs a loss scale.

    `compile` does it for the one optimizer it is given. This is for programs that keep
    their optimizers themselves: custom training loops, models that override `compile`,
    models with several optimizers.

    Args:
      optimizer: an optimizer of Keras 3 or Keras 2, also a LossScaleOptimizer.
      model: the model or layer whose variables the optimizer updates.

    Returns:
      A `LossScaleOptimizer` around `optimizer` if the model or any layer in it computes
      in float16, with the loss scale of the layer's policy if that names one. Else, and
      if the policy's loss scale is None or `optimizer` is wrapped, `optimizer` itself.

    Raises:
      TypeError: if `optimizer` is no optimizer, or `model` no model or layer.

    Example:
    >>> import tensorflow as tf
    >>> import tf_lso
    >>> model = tf.keras.Sequential([tf.keras.layers.Dense(1, dtype="mixed_float16")])
    >>> opt = tf_lso.wrap(tf.keras.optimizers.SGD(0.1), model)
    >>> type(opt).__name__, tf_lso.wrap(opt, model) is opt
    ('LossScaleOptimizer', True)

    Source: an addition. `compile` of TensorFlow 2.1-2.15 did it for models whose own
    policy was mixed_float16.
    """
    binding.require_family(optimizer)  # raises TypeError
    loss_scale = loss_scale_of(model)
    if validation.scales_the_loss(optimizer):
        if loss_scale not in (None, DEFAULT):
            _tell_of_two(optimizer, loss_scale)
        return optimizer
    if loss_scale is None:
        return optimizer
    # The mark of an earlier wrapper. A model may be compiled again with one optimizer,
    # as in Keras 3; each wrapper scales and unscales its own steps.
    vars(optimizer).pop(validation.MARK, None)
    if loss_scale is DEFAULT:
        return loss_scale_optimizer.LossScaleOptimizer(optimizer)
    return experimental.LossScaleOptimizer(optimizer, loss_scale)


def loss_scale_of(model):
    """Return the `LossScale` of a model's policies, `DEFAULT` for a dynamic one, or None."""
    policies = [layer.dtype_policy for layer in float16_layers(model)]
    own = model.dtype_policy
    if getattr(own, "loss_scale", None) is not None or (
        own in policies and hasattr(own, "loss_scale")
    ):
        return own.loss_scale
    scales = [getattr(policy, "loss_scale", DEFAULT) for policy in policies]
    carried = [scale for scale in scales if scale not in (None, DEFAULT)]
    return next(iter(carried), DEFAULT if DEFAULT in scales else None)


def all_layers(model):
    """Return a model and all layers within layers, a list."""
    # Private, since Keras has no public walk over the layers within layers.
    if not hasattr(model, "_flatten_layers"):
        raise TypeError(
            f"'model' must be a model or layer of Keras, but got: {model!r}."
        )
    return list(model._flatten_layers())


def float16_layers(model):
    """Return the layers that compute in float16, also the model itself, a list."""
    return [layer for layer in all_layers(model) if layer.compute_dtype == "float16"]


def _tell_of_two(optimizer, loss_scale):
    own = getattr(optimizer, "loss_scale_state", None)
    if own is loss_scale or repr(own) == repr(loss_scale):
        return
    _once.warn(
        f"compile() uses the loss scale of its optimizer, {own!r}, but the model's policy "
        f"has another, {loss_scale!r}. Give only one of them: an optimizer that is not "
        "wrapped, or a policy with loss_scale=None."
    )


def tell_one(optimizer, model, name):
    """Warn if an optimizer, which the message calls `name`, should scale a model's loss."""
    if loss_scale_of(model) is None or validation.scales_the_loss(optimizer):
        return
    if getattr(optimizer, "loss_scale_factor", None):  # Keras 3's fixed scale
        return
    layers = [layer.name for layer in float16_layers(model) if layer is not model]
    shown = ", ".join(layers[:3]) + (", ..." if len(layers) > 3 else "")
    _once.warn(
        f"{name} ({type(optimizer).__name__}) scales no loss, but layers that it trains "
        f"may compute in float16 ({shown}), where small gradients become 0. Wrap it: "
        "tf_lso.wrap(optimizer, model), and scale the loss: optimizer.get_scaled_loss, "
        "then get_unscaled_gradients. See "
        "`tf-lso help scales-no-loss`"
    )
