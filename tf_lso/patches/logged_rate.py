"""The name under which callbacks used to log the learning rate."""

from tf_lso.names import old_behaviors


def log_lr(keras, ledger):
    """Log `lr` beside `learning_rate`: programs read it from the history."""
    for name in old_behaviors.CALLBACKS:

        @ledger.around(getattr(keras.callbacks, name), "on_epoch_end")
        def on_epoch_end(original, self, epoch, logs=None):
            logs = {} if logs is None else logs
            original(self, epoch, logs)
            if "learning_rate" in logs:
                logs["lr"] = logs["learning_rate"]
