"""Under `install()`, `clear_session` keeps the settings that TensorFlow 2.0-2.15 kept."""

import pytest

from tests import preloaded
from tests.generation import HAS_KERAS3, needs_tf_keras
from tests.processes import run

# keras-tuner calls `clear_session` before each trial.
PROGRAM = """
    import threading
    import tensorflow as tf
    import tensorflow.keras.backend as imported_before_install
    import tf_lso

    K = tf.keras.backend

    def names_of_new_layers():
        return [tf.keras.layers.Dense(1).name for _ in range(2)]

    def print_settings_after(clear):
        tf.keras.mixed_precision.set_global_policy("mixed_float16")
        K.set_floatx("float64")
        K.set_epsilon(1e-3)
        with tf.keras.utils.custom_object_scope({"custom": abs}):
            clear()
            first_names = names_of_new_layers()
            clear()
            is_registered = tf.keras.utils.get_registered_object("custom") is abs
        policy = tf.keras.mixed_precision.global_policy().name
        floatx, epsilon = K.floatx(), K.epsilon()
        K.set_floatx("float32")
        names_are_reset = first_names == names_of_new_layers()
        print(policy, is_registered, floatx, epsilon, names_are_reset)

    with tf_lso.install():
        tf.keras.utils.disable_interactive_logging()
        from tensorflow.keras.backend import clear_session
        for clear in (
            K.clear_session,
            imported_before_install.clear_session,
            clear_session,
            tf.compat.v1.keras.backend.clear_session,
        ):
            print_settings_after(clear)
        # The settings also stay if another thread clears the session.
        thread = threading.Thread(target=K.clear_session)
        thread.start(), thread.join()
        print(tf.keras.mixed_precision.global_policy().name)
        print(tf.keras.utils.is_interactive_logging_enabled())
        head = tf.keras.layers.Activation("linear", dtype="float32")
        model = tf.keras.Sequential([tf.keras.layers.Dense(1), head])
        model.compile("sgd", "mse")
        print(isinstance(model.optimizer, tf_lso.LossScaleOptimizer))
"""

# The switches of Keras 3 stay too. After `uninstall()`, `clear_session` is Keras's own again.
PROGRAM_FOR_KERAS_3 = """
    import keras

    layer = keras.layers.Lambda(lambda x: x)
    with tf_lso.install():
        keras.config.enable_unsafe_deserialization()
        keras.config.disable_traceback_filtering()
        graph = tf.compat.v1.get_default_graph()
        keras.utils.clear_session()
        print(tf.compat.v1.get_default_graph() is graph)
        loaded = keras.layers.Lambda.from_config(layer.get_config())
        print(type(loaded).__name__, keras.config.is_traceback_filtering_enabled())
    keras.config.set_dtype_policy("mixed_float16")
    keras.utils.clear_session()
    print(keras.config.dtype_policy().name)
"""


@pytest.mark.parametrize(
    "legacy_keras", ["0", pytest.param("1", marks=[needs_tf_keras, pytest.mark.slow])]
)
def test_clear_session_keeps_the_settings_and_clears_the_names(legacy_keras):
    program = PROGRAM
    expected = ["mixed_float16 True float64 0.001 True"] * 4
    expected += ["mixed_float16", "False", "True"]
    if HAS_KERAS3 and legacy_keras == "0":
        program += PROGRAM_FOR_KERAS_3
        expected += ["False", "Lambda False", "float32"]
    lines = run(program, preloaded.run, TF_USE_LEGACY_KERAS=legacy_keras)
    assert lines == expected
