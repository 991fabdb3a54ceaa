"""`clear_session` that keeps what TensorFlow 2.0-2.15 kept, on Keras 3."""

from tf_lso import keras_versions

# What programs set for good, or for a block, by Keras's name: the names in a scope of
# custom objects, the global policy, and three switches.
_KEPT = (
    "custom_objects_scope_dict",
    "dtype_policy",
    "interactive_logging",
    "safe_mode_saving",
    "traceback_filtering",
)


def keep_policy(keras, ledger):
    """Forget names and graphs of this thread, and nothing else.

    Keras 3's also sets the global policy back to float32, in all threads. A program that
    sets mixed_float16 at its top would train the next model in float32, and say nothing.
    What stays: that policy, the names in a scope of custom objects, and the switches of
    `keras.config`.
    """
    global_state = keras_versions.state_of_keras3()

    @ledger.everywhere(global_state.clear_session)
    def clear_session(original, *args, **kwargs):
        state = global_state.GLOBAL_STATE_TRACKER
        for name in vars(state).keys() - set(_KEPT):
            delattr(state, name)
        try:
            original(*args, **kwargs)
        finally:
            global_state.GLOBAL_STATE_TRACKER = state
