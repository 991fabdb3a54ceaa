"""Describe the machine for the report. `python -m tests.gpu.machine` prints JSON.

This must run in a separate process, because TensorFlow keeps the memory of the GPUs that it has
used.
"""

import collections
import importlib.metadata
import json
import platform

from tests import devices


def facts():
    """Return the number of devices, and lines of text about the machine."""
    import tensorflow as tf

    import tf_lso
    from tf_lso.frameworks import tf_private

    names = ["logical CPU"] * 2
    if devices.kind() == devices.GPU:
        names = []
        for device in tf.config.list_physical_devices(devices.GPU):
            found = tf.config.experimental.get_device_details(device)
            capability = ".".join(map(str, found.get("compute_capability", "?")))
            name = found.get("device_name", "GPU")
            names.append(f"{name} (compute capability {capability})")
    if not names:
        return 0, []
    installed = []
    for name in ("tensorflow", "tensorflow-cpu", "keras", "tf-keras"):
        installed += importlib.metadata.distributions(name=name)
    versions = ", ".join(f"{d.name} {d.version}" for d in installed)
    build = tf.sysconfig.get_build_info()
    cuda = build.get("cuda_version", "none")
    cudnn = build.get("cudnn_version", "none")
    counted = collections.Counter(names)
    with devices.mirrored(len(names)).scope():
        without = tf_private.needs_no_merge_call()
    return len(names), [
        f"versions: tf_lso {tf_lso.__version__}, {versions}",
        f"system: Python {platform.python_version()}, {platform.platform()}",
        f"TensorFlow was built for CUDA {cuda}, cuDNN {cudnn}",
        "devices: " + ", ".join(f"{n} x {name}" for name, n in counted.items()),
        f"MirroredStrategy: {'without merging' if without else 'merges the replicas'}",
    ]


if __name__ == "__main__":
    devices.hide_others()
    print("FACTS", json.dumps(facts()))
