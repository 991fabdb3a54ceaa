"""The experimental LossScaleOptimizer of TensorFlow 2.0-2.8."""

from typing import Any

from tf_lso.frameworks import keras_versions
from tf_lso.optimizers import config as configs
from tf_lso.optimizers import loss_scale_optimizer as optimizers
from tf_lso.optimizers import validation
from tf_lso.scaling import loss_scale_configs


@keras_versions.named_in_files("tf_lso>ExperimentalLossScaleOptimizer")
class LossScaleOptimizer(optimizers.LossScaleOptimizer):
    """An optimizer that scales the loss by a `LossScale` object.

    The constructor accepts a `LossScale`, and the attribute `loss_scale` is this object.
    In the base class `tf_lso.LossScaleOptimizer`, the constructor has other arguments, and
    the attribute `loss_scale` is a tensor.

    Args:
      optimizer: the optimizer of Keras 3 or Keras 2 to wrap.
      loss_scale: "dynamic", a Python int or float of at least 1 for a fixed scale, or
        a `LossScale`. The class of the `LossScale` may be your own. The optimizer uses
        the object itself and not a copy, so steps change the state of the object.
      name: str, the optimizer's name. TensorFlow did not have this argument.

    Raises:
      TypeError: if `optimizer` is not an optimizer or is a LossScaleOptimizer, or a
        keyword is unknown.
      ValueError: if `loss_scale` is None or not a loss scale, another wrapper holds the
        optimizer, or the current strategy is not supported.

    Example:
    >>> import tensorflow as tf
    >>> from tf_lso.keras.mixed_precision import experimental as mixed_precision
    >>> opt = mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), 128)
    >>> float(opt.loss_scale()), "%g" % opt.loss_scale
    (128.0, '128')

    Source: `tf.keras.mixed_precision.experimental.LossScaleOptimizer` of TensorFlow
    2.0-2.8.
    """

    def __init__(
        self, optimizer: Any, loss_scale: Any, *, name: str | None = None
    ) -> None:
        if loss_scale is None:
            raise ValueError(
                "'loss_scale' cannot be None. Pass 'dynamic', a number, or a LossScale."
            )
        self._start(optimizer, lambda: loss_scale_configs.get(loss_scale), name)

    def __new__(cls, *args, **kwargs):
        """Make an instance of the subclass of `cls` that fits the inner optimizer."""
        # The constructor of a user's subclass may accept other keywords.
        if cls.__init__ is LossScaleOptimizer.__init__:
            accepted = ("optimizer", "loss_scale", "name")
            for name in kwargs.keys() - set(accepted):
                validation.refuse_keyword(name, accepted)
        return super().__new__(cls, *args, **kwargs)

    __new__.__wrapped__ = __init__  # type: ignore[attr-defined]

    @optimizers.LossScaleOptimizer.loss_scale.getter  # type: ignore[attr-defined]
    def loss_scale(self):
        """The `LossScale` object. It can be called or used as a float32 scalar tensor.

        Raises:
          AttributeError: if a program sets this attribute. To change the value of the loss
            scale, call `optimizer.loss_scale.assign`.
        """
        return self.loss_scale_state

    @loss_scale.setter  # type: ignore[no-redef]
    def loss_scale(self, value):
        raise AttributeError(
            f"'loss_scale' cannot be set, but got: {value!r}. It is the LossScale object; "
            "set the value of a dynamic one by optimizer.loss_scale.assign(value)."
        )

    def get_config(self) -> dict[str, Any]:
        """Return a dict from which `from_config` makes an equal optimizer.

        The dict contains no state, so the new optimizer starts at the initial loss scale.
        """
        config = {
            "optimizer": self._family.serialize(),
            "loss_scale": loss_scale_configs.serialize(self.loss_scale_state),
        }
        if self._own_name is not None:
            config["name"] = self._own_name
        return config


configs.CLASSES["experimental"] = LossScaleOptimizer
