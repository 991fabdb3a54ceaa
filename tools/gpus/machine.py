"""What a report says of the machine. `python -m tools.gpus.machine` prints it as JSON.

In a process of its own: TensorFlow keeps the memory of the GPUs that it has used.
"""

import importlib.metadata
import json
import os
import platform

from tests import devices

_PACKAGES = ("tensorflow", "tensorflow-cpu", "keras", "tf-keras")


def facts():
    """The facts, a dict of JSON; without devices it ends before it needs any."""
    import tensorflow as tf

    found = tf.config.list_physical_devices(devices.kind())
    if not found:
        return {"devices": []}
    count = len(found) if devices.kind() == devices.GPU else 2
    details = [
        tf.config.experimental.get_device_details(device)
        for device in tf.config.list_physical_devices(devices.GPU)
    ]
    build = tf.sysconfig.get_build_info()
    strategy = devices.mirrored(count)
    with strategy.scope():
        from tf_lso import tf_private

        merges = not tf_private.needs_no_merge_call()
    return {
        "devices": [_name(one) for one in details] or ["logical CPU"] * count,
        "versions": versions(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "cuda": build.get("cuda_version", "none"),
        "cudnn": build.get("cudnn_version", "none"),
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "merges": merges,
    }


def _name(details):
    capability = ".".join(map(str, details.get("compute_capability", ["?"])))
    return f"{details.get('device_name', 'GPU')} (compute capability {capability})"


def versions():
    """What is installed: distribution -> version. This imports no TensorFlow."""
    import tf_lso

    there = [d for n in _PACKAGES for d in importlib.metadata.distributions(name=n)]
    return {"tf_lso": tf_lso.__version__} | {d.name: d.version for d in there}


if __name__ == "__main__":
    devices.hide_others()
    print("FACTS", json.dumps(facts()))
