"""The dtype policies of TensorFlow 2.0-2.15, built on those of the installed Keras."""

import functools

from tf_lso.frameworks import environment, keras_versions

# Check TensorFlow before Keras is imported, because the import of Keras may fail.
environment.require_tensorflow()

# ruff: noqa: E402
from tf_lso.policies.api import PolicyApi
from tf_lso.policies.api import (
    log_device_compatibility_check as log_device_compatibility_check,
)

# `for_package("keras")` or `for_package("tf_keras")` returns the policy functions and
# classes for that package. Each package has one `PolicyApi`.
for_package = functools.cache(PolicyApi)

_api = for_package(keras_versions.package_of_tensorflow())

Policy = _api.Policy
global_policy = _api.global_policy
set_global_policy = _api.set_global_policy

ExperimentalPolicy = _api.ExperimentalPolicy
experimental_global_policy = _api.experimental_global_policy
set_policy = _api.set_policy
get_layer_policy = _api.get_layer_policy

# Keras 3 calls the class and both functions by these names.
DTypePolicy = Policy
dtype_policy = global_policy
set_dtype_policy = set_global_policy
