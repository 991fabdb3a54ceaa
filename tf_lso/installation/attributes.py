"""Attributes and arguments of old that Keras 3's optimizers get.

Programs read them through a wrapper (`opt.inner_optimizer.lr`) or where a switch leaves
the wrapper out (`if use_float16: opt = LossScaleOptimizer(opt)`).
"""

import functools
import warnings

import keras
import tensorflow as tf

# Private: `import tensorflow.keras.backend` makes a copy of the public module, from this.
from keras.src.legacy import backend as legacy_backend

from tf_lso.optimizers import checks

_OWNER = keras.optimizers.Optimizer


def _learning_rate(self):
    """The learning rate, a TensorFlow variable, by its name of TensorFlow 2.0-2.10."""
    return checks.raw(self.learning_rate)


def _set_learning_rate(self, value):
    self.learning_rate = value


def _decayed_lr(self, var_dtype):
    """The learning rate of the next step, a tensor."""
    return tf.cast(tf.convert_to_tensor(self.learning_rate), var_dtype)


def _get_weights(self):
    """The values of all variables, a list of arrays."""
    return [checks.raw(variable).numpy() for variable in self.variables]


def _weights(self):
    """All variables, a list."""
    return list(self.variables)


def minimize(self, loss, var_list, grad_loss=None, name=None, tape=None):
    """Compute gradients of the loss and apply them, as TensorFlow 2.0-2.15 did."""
    del name
    if not callable(loss) and tape is None:
        raise ValueError(
            "`tape` is required when a tensor is passed as the loss: pass the "
            f"tf.GradientTape that recorded it, or a callable. Got loss={loss!r}."
        )
    tape = tf.GradientTape() if tape is None else tape
    if callable(loss):
        with tape:
            if not callable(var_list):
                tape.watch([checks.raw(v) for v in tf.nest.flatten(var_list)])
            loss = loss()
    variables = tf.nest.flatten(var_list() if callable(var_list) else var_list)
    grads = tape.gradient(loss, [checks.raw(v) for v in variables], grad_loss)
    return self.apply_gradients(zip(grads, variables))


# Name -> what stands for it, where the class has none of its own.
ATTRIBUTES = {
    "lr": property(_learning_rate, _set_learning_rate),
    "_decayed_lr": _decayed_lr,
    "get_weights": _get_weights,
    "weights": property(_weights),
    "minimize": minimize,
}


def apply(ledger):
    """Give Keras 3's optimizers the old attributes and arguments.

    Args:
      ledger: `Ledger` to change by.
    """
    for name, value in ATTRIBUTES.items():
        if not hasattr(_OWNER, name):
            ledger.set_attribute(_OWNER, name, value)
    ledger.set_attribute(_OWNER, "__init__", _taking_old_arguments(_OWNER.__init__))
    for module in (tf.keras.backend, legacy_backend):
        if hasattr(module, "set_value"):
            ledger.set_attribute(module, "set_value", _set_value)


def _set_value(x, value):
    """Set a variable of TensorFlow or Keras to an array, a number or a tensor.

    Keras 3's own fails for Keras 3's variables, such as `optimizer.learning_rate`.
    """
    x.assign(tf.cast(tf.convert_to_tensor(value), checks.raw(x).dtype))


def _taking_old_arguments(keras_init):
    @functools.wraps(keras_init)
    def __init__(self, *args, **kwargs):
        if "lr" in kwargs:
            lr = kwargs.pop("lr")
            args = args[1:]
            kwargs["learning_rate"] = lr
        decay = kwargs.pop("decay", None)
        if decay:
            rate = args[0] if args else kwargs.get("learning_rate")
            args = args[1:]
            kwargs["learning_rate"] = _decaying(rate, decay)
        keras_init(self, *args, **kwargs)

    return __init__


def _decaying(learning_rate, decay):
    """The schedule that `decay` of TensorFlow 2.0-2.10 was."""
    if isinstance(learning_rate, keras.optimizers.schedules.LearningRateSchedule):
        warnings.warn(
            f"decay={decay} is left out, since the learning rate is a schedule already.",
            stacklevel=4,
        )
        return learning_rate
    return keras.optimizers.schedules.InverseTimeDecay(learning_rate, 1, decay)
