"""Whether this machine computes fast in float16."""

import tensorflow as tf

from tf_lso import log

_FAST = (7, 0)  # compute capability of the first GPUs with float16 matrix units

_once = log.Once()


def log_device_compatibility_check(policy_name: str) -> None:
    """Warn, once in a process, if a float16 policy may be slow on this machine.

    Args:
      policy_name: str, the name of a dtype policy.

    Source: TensorFlow 2.2-2.15, when a mixed_float16 policy was made.
    """
    if policy_name != "mixed_float16":
        return
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        _once.warn(
            "The dtype policy mixed_float16 may run slowly, because this machine has no "
            "GPU: CPUs gain nothing from float16. The GPUs of other workers are not checked."
        )
        return
    capabilities = [
        tf.config.experimental.get_device_details(gpu).get("compute_capability")
        for gpu in gpus
    ]
    slow = [c for c in capabilities if c is not None and c < _FAST]
    if slow:
        _once.warn(
            "The dtype policy mixed_float16 may run slowly: it needs GPUs of compute "
            f"capability 7.0 or more, but this machine has some of {slow}."
        )
