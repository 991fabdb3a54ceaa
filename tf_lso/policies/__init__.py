"""The dtype policies of TensorFlow 2.0-2.15, made from those of today's `tf.keras`."""

import functools

from tf_lso.frameworks import environment, keras_versions

environment.require_tensorflow()  # before the import of Keras, which may fail

# ruff: noqa: E402
from tf_lso.policies.api import PolicyApi
from tf_lso.policies.api import (
    log_device_compatibility_check as log_device_compatibility_check,
)

# Return the policy functions and classes for the package of a Keras.
for_package = functools.cache(PolicyApi)

_api = for_package(keras_versions.package_of_tensorflow())

Policy = _api.Policy
global_policy = _api.global_policy
set_global_policy = _api.set_global_policy

ExperimentalPolicy = _api.ExperimentalPolicy
experimental_global_policy = _api.experimental_global_policy
set_policy = _api.set_policy
get_layer_policy = _api.get_layer_policy

# In Keras 3 the same class and functions have these names.
DTypePolicy = Policy
dtype_policy = global_policy
set_dtype_policy = set_global_policy
