"""The experimental Policy of TensorFlow 2.0-2.8, which has a loss scale."""

import tensorflow as tf

from tf_lso.frameworks import log
from tf_lso.scaling import loss_scale_configs

# TensorFlow 2.0-2.3 used "USE_DEFAULT", and TensorFlow 2.4-2.8 used "auto".
_DEFAULTS = ("auto", "USE_DEFAULT")
_REMOVED = "_float32_vars"

_once = log.Once()


def check_name(name):
    """Raise an error if `name` is not a str or is a policy name that TensorFlow 2.1 removed."""
    if not isinstance(name, str):
        is_dtype = isinstance(name, tf.DType)
        got = f"not a DType: pass {name.name!r}. Got" if is_dtype else "but got"
        raise TypeError(f"'name' must be a string, {got}: {name!r}.")
    if name.endswith(_REMOVED):
        raise ValueError(
            f"Policies ending in {_REMOVED!r} were removed in TensorFlow 2.1: use "
            f"'mixed_float16' instead. Got: {name!r}."
        )


class LossScalePolicy:
    """A dtype policy with a loss scale.

    If a model has such a policy, `compile` wraps the optimizer and uses the loss scale of
    the policy. The program must call `tf_lso.install()` before it calls `compile`.

    Args:
      name: str, "mixed_float16", "mixed_bfloat16", or the name of a dtype.
      loss_scale: a `LossScale`, a Python int or float of at least 1 for a fixed loss
        scale, "dynamic", or None. Defaults to "dynamic" for "mixed_float16" and to None for
        other policies.

    Raises:
      TypeError: if `name` is not a str.
      ValueError: if no policy has the name, or `loss_scale` is not a loss scale.

    Example:
    >>> from tf_lso.keras.mixed_precision import experimental as mixed_precision
    >>> policy = mixed_precision.Policy("mixed_float16", loss_scale=128)
    >>> policy.compute_dtype, policy.variable_dtype, float(policy.loss_scale())
    ('float16', 'float32', 128.0)

    Source: `tf.keras.mixed_precision.experimental.Policy` of TensorFlow 2.0-2.8.
    """

    def __init__(self, name, loss_scale="auto"):
        check_name(name)
        super().__init__(name)
        is_default = isinstance(loss_scale, str) and loss_scale in _DEFAULTS
        if is_default:
            loss_scale = "dynamic" if name == "mixed_float16" else None
        self._loss_scale = loss_scale_configs.get(loss_scale)
        self._loss_scale_is_default = is_default
        if loss_scale is not None and name not in ("mixed_float16", "float16"):
            _once.warn(
                "A loss scale is useful only in a policy that computes in float16, but "
                f"loss_scale={loss_scale!r} was given to the policy {name!r}. Leave it "
                "out."
            )
        self._tell_of_device(name)

    @property
    def loss_scale(self):
        """The `LossScale` of the policy, or None if the policy has no loss scale."""
        return self._loss_scale

    @property
    def should_cast_variables(self):
        """Whether layers cast their variables from the variable dtype to the compute dtype."""
        return self.variable_dtype != self.compute_dtype

    def get_config(self):
        """Return a dict of the constructor's arguments that make an equal policy."""
        config = {"name": self.name}
        if not self._loss_scale_is_default:
            config["loss_scale"] = loss_scale_configs.serialize(self.loss_scale)
        return config

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """Make a policy from a config that `get_config` returned."""
        config = dict(config)
        if isinstance(config.get("loss_scale"), dict):
            config["loss_scale"] = loss_scale_configs.deserialize(
                config["loss_scale"], custom_objects
            )
        return cls(**config)

    def __hash__(self):
        # Keras 3's policies define `__eq__` without `__hash__` (keras#19932). Equal policies
        # have the same name.
        return hash(self.name)

    def __repr__(self):
        return f'<{type(self).__name__} "{self.name}", loss_scale={self.loss_scale}>'
