"""Make `clear_session` of Keras 3 keep the dtype policy. Also show hints in notebooks."""

import sys

from tf_lso.frameworks import keras_versions
from tf_lso.install import hints

# The attributes of Keras's global state that a program sets for the rest of its run or inside a
# `with` block, so that `clear_session` must keep them.
_KEPT = {
    *("custom_objects_scope_dict", "dtype_policy"),
    *("interactive_logging", "safe_mode_saving", "traceback_filtering"),
}


def keep_policy(keras, ledger):
    """Make `clear_session` keep the policy, and clear only names and graphs of this thread.

    The original `clear_session` of Keras 3 sets the dtype policy of all threads to float32.
    A program that sets mixed_float16 at its start would then silently train the next model
    in float32. The changed function also keeps the names in a scope of custom objects and
    the switches of `keras.config`.
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
    """In a notebook, suggest `install(like=...)` below an error that Keras 3 caused."""
    ipython = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    if shell is None:
        return

    @ledger.around(shell, "showtraceback")
    def showtraceback(original, *args, **kwargs):
        original(*args, **kwargs)
        line = hints.hint(sys.exc_info()[1])
        if line is not None:
            print(line, file=sys.stderr)
