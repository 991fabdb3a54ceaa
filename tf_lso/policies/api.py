"""Make the policy classes and functions of TensorFlow 2.0-2.15 for one Keras package."""

import types
from typing import Any

import tensorflow as tf

from tf_lso.frameworks import keras_versions, log, tf_private
from tf_lso.policies import experimental

# GPUs of at least this compute capability have matrix units for float16.
_FAST = (7, 0)

_once = log.Once()


def log_device_compatibility_check(policy_name: str) -> None:
    """Warn if the policy is mixed_float16 and may be slow on the GPUs of this machine.

    Each warning is logged only once in a process.

    Args:
      policy_name: str, the name of a dtype policy.

    Source: TensorFlow 2.2-2.15. Those versions called this function when a program made a
    mixed_float16 policy.
    """
    if policy_name != "mixed_float16":
        return
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        _once.warn(
            "The dtype policy mixed_float16 may run slowly, because this machine has no "
            "GPU: CPUs are not faster in float16. The GPUs of other workers are not checked."
        )
        return
    details = map(tf.config.experimental.get_device_details, gpus)
    slow = [c for one in details if (c := one.get("compute_capability", _FAST)) < _FAST]
    if slow:
        _once.warn(
            "The dtype policy mixed_float16 may run slowly: it needs GPUs of compute "
            f"capability 7.0 or more, but this machine has GPUs of capability {slow}."
        )


class PolicyApi:
    """The functions and classes of the old mixed_precision modules for one Keras package."""

    def __init__(self, package):
        self._package = package
        self._keras = keras = keras_versions.public(package)
        # Keep Keras's own objects, because `tf_lso.install` may later replace them in Keras.
        self.Policy = keras.mixed_precision.Policy
        get_global = keras.mixed_precision.global_policy
        self._set_global = keras.mixed_precision.set_global_policy
        self._tell_of_device = log_device_compatibility_check
        if keras_versions.is_keras2(package):
            # Keras 2 itself warns about slow GPUs when it makes a policy.
            self._tell_of_device = lambda policy_name: None

        class Policy(experimental.LossScalePolicy, self.Policy):
            __doc__ = experimental.LossScalePolicy.__doc__
            _tell_of_device = staticmethod(self._tell_of_device)

        # Keras finds the class by its module and its name when it loads a layer or a model.
        Policy.__module__ = "tf_lso.keras.mixed_precision.experimental"
        Policy.__qualname__ = "Policy"
        register = keras.saving.register_keras_serializable("tf_lso", "Policy")
        self.ExperimentalPolicy = register(Policy)

        # These are plain functions, so that their signatures are those of old TensorFlow.
        def global_policy() -> Any:
            """Return the dtype policy that new layers use by default.

            Source: TensorFlow 2.4-2.15.
            """
            return get_global()

        def set_global_policy(policy: Any) -> None:
            """Set the dtype policy that new layers use by default.

            If the policy of a model is mixed_float16, `compile` wraps the optimizer of the
            model. After `tf_lso.install()`, `compile` uses the LossScaleOptimizer of
            tf_lso. Otherwise `compile` uses Keras's own LossScaleOptimizer.

            Args:
              policy: a policy, its name, or None for the policy of Keras's default dtype.

            Raises:
              TypeError: if `policy` is not a policy, a str or None.
              ValueError: if no policy has the name, the policy does not compute in floating
                point, or the policy is mixed and the mixed precision graph rewrite is on.

            Source: TensorFlow 2.4-2.15.
            """
            self._set(policy, self.Policy)

        def experimental_global_policy() -> Any:
            """Return the dtype policy that new layers use by default.

            The result has an attribute `loss_scale`, which is None for a policy without a
            loss scale. Only a quantized policy of Keras 3 is returned as it is.

            Source: TensorFlow 2.0-2.8.
            """
            return self._with_loss_scale(get_global())

        def set_policy(policy: Any) -> None:
            """Set the default dtype policy of new layers to a policy with a loss scale.

            After `tf_lso.install()`, `compile` wraps the optimizer of a model that has this
            policy, and uses the loss scale of the policy. Without `tf_lso.install()`,
            `compile` ignores this loss scale. This function warns about that, unless the
            policy has its default loss scale.

            Args:
              policy: a policy, its name, or None for the policy of Keras's default dtype.

            Raises:
              TypeError, ValueError: in the same cases as `set_global_policy`.

            Source: TensorFlow 2.0-2.8.
            """
            # "infer" was the name of the default policy in TensorFlow 2.0-2.2.
            unset = isinstance(policy, str) and policy in ("infer", "_infer")
            self._set(None if unset else policy, self.ExperimentalPolicy)

        def get_layer_policy(layer: Any) -> Any:
            """Return the dtype policy of a layer.

            The result has an attribute `loss_scale`, which is None for a policy without a
            loss scale. Only a quantized policy of Keras 3 is returned as it is.

            Args:
              layer: a layer of Keras.

            Raises:
              ValueError: if `layer` is not a layer of Keras.

            Source: TensorFlow 2.2-2.8.
            """
            if not isinstance(layer, keras.layers.Layer):
                raise ValueError(
                    f"get_layer_policy() needs a layer of Keras, but got: {layer!r}."
                )
            return self._with_loss_scale(layer.dtype_policy)

        self.global_policy = global_policy
        self.set_global_policy = set_global_policy
        self.experimental_global_policy = experimental_global_policy
        self.set_policy = set_policy
        self.get_layer_policy = get_layer_policy
        for name, function in vars(self).items():
            # Pickle finds a function by its module and its qualified name. Attributes whose
            # names begin with "_" are helpers or functions of Keras, which stay as they are.
            if isinstance(function, types.FunctionType) and not name.startswith("_"):
                function.__module__, function.__qualname__ = "tf_lso.policies", name
        experimental_global_policy.__name__ = "global_policy"

    def _with_loss_scale(self, policy):
        """Return an experimental policy in place of a policy without a `loss_scale`."""
        # A quantized policy of Keras 3, such as "int8_from_float32", has a class of its own.
        is_quantized = bool(getattr(policy, "quantization_mode", None))
        if hasattr(policy, "loss_scale") or is_quantized:
            return policy
        return self.ExperimentalPolicy(policy.name)

    def _set(self, policy, cls):
        if policy is None:
            policy = cls(self._keras.backend.floatx())
        elif not isinstance(policy, self.Policy):
            experimental.check_name(policy)
            policy = cls(policy)
        _check(policy)
        self._tell_of_device(policy.name)
        if self._package not in keras_versions.installed:
            _tell_of_ignored_scale(policy)
        self._set_global(policy)


def _tell_of_ignored_scale(policy):
    if getattr(policy, "_loss_scale_is_default", True):
        return
    _once.warn(
        f"If the program calls compile(), Keras ignores the loss scale of the policy "
        f"{policy!r}: under mixed_float16 it wraps the optimizer with a dynamic scale, and "
        "otherwise not at all. Call tf_lso.install() at the top of the program, or pass "
        "tf_lso.wrap(optimizer, model) to compile(). A training loop of your own needs "
        "nothing of this."
    )


def _check(policy):
    # Accept Keras 2's policy "_infer", which has no dtype until a layer gets its first input.
    if policy.compute_dtype is None:
        return
    if not tf.as_dtype(policy.compute_dtype).is_floating:
        raise ValueError(
            "The global policy must compute in floating point, as 'float32' and "
            f"'mixed_float16' do, but got: {policy.name!r}."
        )
    mixed = policy.compute_dtype != policy.variable_dtype
    if mixed and tf_private.graph_rewrite_is_on():
        raise ValueError(
            f"The global policy cannot be {policy.name!r}, because the mixed precision "
            "graph rewrite is on, and both compute in float16. Remove the call of "
            "enable_mixed_precision_graph_rewrite(): policies also work in eager mode."
        )
