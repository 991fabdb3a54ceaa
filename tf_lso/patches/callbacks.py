"""The name under which callbacks used to log the learning rate."""

import keras

from tf_lso.names import beyond


def apply(ledger):
    """Make Keras 3's callbacks also log `lr`, which programs read from the history.

    Keras 3 logs it as "learning_rate".
    """
    for name in beyond.CALLBACKS:
        callback = getattr(keras.callbacks, name)
        ledger.replace(callback, "on_epoch_end", _logging(callback.on_epoch_end))


def _logging(keras_on_epoch_end):
    def on_epoch_end(self, epoch, logs=None):
        logs = {} if logs is None else logs
        keras_on_epoch_end(self, epoch, logs)
        if "learning_rate" in logs:
            logs["lr"] = logs["learning_rate"]

    return on_epoch_end
