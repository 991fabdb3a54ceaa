"""Attributes and arguments of old that tf_keras's newer optimizers get.

They are what `tf.keras.optimizers` has with TF_USE_LEGACY_KERAS=1, also for programs
that were written before TensorFlow 2.11 made them the default.
"""

import functools

import tensorflow as tf
import tf_keras

from tf_lso.installation import attributes

_OWNER = tf_keras.optimizers.Optimizer


def _decayed_lr(self, var_dtype):
    """The learning rate of the next step, a tensor."""
    rate = self._learning_rate
    if isinstance(rate, tf_keras.optimizers.schedules.LearningRateSchedule):
        rate = rate(self.iterations)
    return tf.cast(rate, var_dtype)


def _get_weights(self):
    """The values of all variables, a list of arrays."""
    return [variable.numpy() for variable in self.variables]


ATTRIBUTES = {
    "_decayed_lr": _decayed_lr,
    "get_weights": _get_weights,
    "weights": attributes.ATTRIBUTES["weights"],
}


def apply(ledger):
    """Give tf_keras's newer optimizers the old attributes and arguments.

    Args:
      ledger: `Ledger` to change by.
    """
    for name, value in ATTRIBUTES.items():
        if not hasattr(_OWNER, name):
            ledger.set_attribute(_OWNER, name, value)
    for name, replacement in _REPLACED.items():
        replaced = functools.wraps(getattr(_OWNER, name))(
            replacement(getattr(_OWNER, name))
        )
        ledger.set_attribute(_OWNER, name, replaced)


# --- Private methods, since the class refuses these arguments before any public one;
# tests/installation/test_attributes.py fails when they move.


def _process_kwargs(original):
    """Keeps `lr`, which tf_keras only warns of, and `decay`, which it refuses."""

    def _process_kwargs(self, kwargs):
        self.__dict__["_old_lr"] = kwargs.pop("lr", None)
        self.__dict__["_old_decay"] = kwargs.pop("decay", None)
        original(self, kwargs)

    return _process_kwargs


def _build_learning_rate(original):
    """Makes the learning rate of them: `decay` becomes the schedule that it was."""

    def _build_learning_rate(self, learning_rate):
        lr = self.__dict__.pop("_old_lr", None)
        decay = self.__dict__.pop("_old_decay", None)
        learning_rate = learning_rate if lr is None else lr
        if decay:
            schedules = tf_keras.optimizers.schedules
            learning_rate = schedules.InverseTimeDecay(learning_rate, 1, decay)
        return original(self, learning_rate)

    return _build_learning_rate


_REPLACED = {
    "_process_kwargs": _process_kwargs,
    "_build_learning_rate": _build_learning_rate,
}
