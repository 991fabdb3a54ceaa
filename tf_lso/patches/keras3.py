"""What Keras 3 does otherwise than Keras 2 did, apart from optimizers and files."""

import sys

import tensorflow as tf

from tf_lso import as_tensor, keras_versions
from tf_lso import variables as variables_lib
from tf_lso.names import old_behaviors
from tf_lso.patches import hints


def set_values(keras, ledger):
    """Take variables of all kinds, and loss scales.

    Keras 3's `set_value` fails for its own variables, such as `optimizer.learning_rate`.
    """
    # Private: `tf.keras.backend` may be that of tf_keras.
    from keras.src.legacy import backend

    @ledger.around(backend, "set_value")
    def set_value(original, x, value):
        x.assign(tf.cast(tf.convert_to_tensor(value), variables_lib.raw(x).dtype))

    is_it = keras_versions.package_of_tensorflow() == "keras"
    for module in [backend] if is_it else [backend, tf.keras.backend]:

        @ledger.around(module, "get_value")
        def get_value(original, x):
            return x.numpy() if isinstance(x, as_tensor.AsTensor) else original(x)


def make_variables_numbers(keras, ledger):
    """Add what variables of Keras 3.0 lack, and later ones have."""
    numbers = {
        "__int__": lambda self: int(self.value),
        "__float__": lambda self: float(self.value),
    }
    ledger.add_missing(keras_versions.variable_of_keras3(), numbers)


def log_lr(keras, ledger):
    """Log `lr` beside `learning_rate`: programs read it from the history."""
    for name in old_behaviors.CALLBACKS:

        @ledger.around(getattr(keras.callbacks, name), "on_epoch_end")
        def on_epoch_end(original, self, epoch, logs=None):
            logs = {} if logs is None else logs
            original(self, epoch, logs)
            if "learning_rate" in logs:
                logs["lr"] = logs["learning_rate"]


# What programs set for good or for a block, by Keras's names.
_KEPT = {
    *("custom_objects_scope_dict", "dtype_policy"),
    *("interactive_logging", "safe_mode_saving", "traceback_filtering"),
}


def keep_policy(keras, ledger):
    """Forget names and graphs of this thread, and nothing else.

    Keras 3's also sets the global policy back to float32, in all threads. A program that
    sets mixed_float16 at its top would train the next model in float32, and say nothing.
    What stays: that policy, the names in a scope of custom objects, and the switches of
    `keras.config`.
    """
    global_state = keras_versions.state_of_keras3()

    @ledger.around(global_state, "clear_session")
    def clear_session(original, *args, **kwargs):
        state = global_state.GLOBAL_STATE_TRACKER
        for name in vars(state).keys() - _KEPT:
            delattr(state, name)
        try:
            original(*args, **kwargs)
        finally:
            global_state.GLOBAL_STATE_TRACKER = state


def show_hints(keras, ledger):
    """Say the hint that names `--like` after an error that Keras 3 makes."""
    ipython = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    if shell is None:
        return

    @ledger.around(shell, "showtraceback")
    def showtraceback(original, *args, **kwargs):
        original(*args, **kwargs)
        error = sys.exc_info()[1]
        line = error and hints.hint(error)
        if line:
            print(line, file=sys.stderr)
