"""The name that callbacks of old logged the learning rate by."""

import functools

import keras

# Since Keras 3 they log it as "learning_rate".
CALLBACKS = (
    keras.callbacks.LearningRateScheduler,
    keras.callbacks.ReduceLROnPlateau,
)


def apply(ledger):
    """Let Keras 3's callbacks log `lr` too, which programs read in the history.

    Args:
      ledger: `Ledger` to change by.
    """
    for callback in CALLBACKS:
        ledger.set_attribute(callback, "on_epoch_end", _logging(callback.on_epoch_end))


def _logging(keras_on_epoch_end):
    @functools.wraps(keras_on_epoch_end)
    def on_epoch_end(self, epoch, logs=None):
        logs = {} if logs is None else logs
        keras_on_epoch_end(self, epoch, logs)
        if "learning_rate" in logs:
            logs["lr"] = logs["learning_rate"]

    return on_epoch_end
