"""What policies need from tf_keras. Imported only if tf_keras is used."""

import tf_keras

MODULE = tf_keras
Policy = tf_keras.mixed_precision.Policy
Layer = tf_keras.layers.Layer

# Taken before `install` replaces them.
get_global = tf_keras.mixed_precision.global_policy
set_global = tf_keras.mixed_precision.set_global_policy
floatx = tf_keras.backend.floatx


def tell_of_device(policy_name):
    """Do nothing, since tf_keras itself warns."""
    del policy_name


def register(cls):
    """Make tf_keras load layers and models that were saved with policies of `cls`."""
    return tf_keras.saving.register_keras_serializable("tf_lso", "Policy")(cls)
