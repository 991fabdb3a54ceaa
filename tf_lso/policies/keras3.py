"""What policies need from Keras 3."""

import keras

from tf_lso.policies import device

PACKAGE = "keras"
Policy = keras.DTypePolicy
Layer = keras.layers.Layer

# `install` does not replace these functions.
get_global = keras.config.dtype_policy
set_global = keras.config.set_dtype_policy
floatx = keras.config.floatx

tell_of_device = device.log_device_compatibility_check
