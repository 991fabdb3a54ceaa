"""The dtype policies of TensorFlow 2.0-2.15, built on the policies of today's Keras."""

import functools

from tf_lso.frameworks import environment, keras_versions

environment.require_tensorflow()

# ruff: noqa: E402
from tf_lso.policies.api import PolicyApi
from tf_lso.policies.api import (
    log_device_compatibility_check as log_device_compatibility_check,
)

# Returns the `PolicyApi` of the Keras package "keras" or "tf_keras".
for_package = functools.cache(PolicyApi)

_api = for_package(keras_versions.package_of_tensorflow())

Policy = _api.Policy
global_policy = _api.global_policy
set_global_policy = _api.set_global_policy

ExperimentalPolicy = _api.ExperimentalPolicy
experimental_global_policy = _api.experimental_global_policy
set_policy = _api.set_policy
get_layer_policy = _api.get_layer_policy

# The names of Keras 3.
DTypePolicy = Policy
dtype_policy = global_policy
set_dtype_policy = set_global_policy
