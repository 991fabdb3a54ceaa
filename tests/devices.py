"""Choose the devices of tests and measurements: logical CPUs, or the machine's GPUs.

The environment variable `TF_LSO_DEVICES=GPU` chooses GPUs, and so does `tools/test --gpu`. The
functions import TensorFlow only when they need it.
"""

import os

CPU, GPU = "CPU", "GPU"
VARIABLE = "TF_LSO_DEVICES"


def kind():
    """Return the kind of the chosen devices, `CPU` or `GPU`."""
    chosen = os.environ.get(VARIABLE) or CPU
    if chosen not in (CPU, GPU):
        raise ValueError(f"{VARIABLE}={chosen}: use {CPU} or {GPU}.")
    return chosen


def environment():
    """Return the environment variables that let a process use only the chosen devices."""
    if kind() == CPU:
        return {"CUDA_VISIBLE_DEVICES": "-1"}
    # Reserve GPU memory only as needed, since other processes may use the GPUs, too.
    return {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}


def hide_others():
    """Hide all but the chosen devices from TensorFlow. Call this before importing it."""
    for name, value in environment().items():
        os.environ.setdefault(name, value)


def make_logical_cpus(tensorflow, count):
    """Split one CPU into `count` logical CPUs. Call this before TensorFlow is used."""
    tensorflow.config.set_logical_device_configuration(
        tensorflow.config.list_physical_devices(CPU)[0],
        [tensorflow.config.LogicalDeviceConfiguration()] * count,
    )


def end_replicas_at_once(tensorflow):
    """Make `strategy.run` return as soon as the threads of its replicas have ended.

    TensorFlow checks every second whether the threads have ended, so a thread that ends just
    after a check costs a second. This function makes TensorFlow check every 5 ms.
    """
    coordinator = tensorflow.train.Coordinator
    wait = coordinator.wait_for_stop

    def wait_for_stop(self, timeout=None):
        return wait(self, timeout and min(timeout, 0.005))

    coordinator.wait_for_stop = wait_for_stop


def mirrored(count):
    """Return a MirroredStrategy on `count` devices. Call it before TensorFlow is used."""
    import tensorflow as tf

    if kind() == CPU:
        make_logical_cpus(tf, count)
    return tf.distribute.MirroredStrategy([f"{kind()}:{i}" for i in range(count)])


def strategy(name):
    """Return the strategy with a name such as `mirrored2` or `multiworker`, or None.

    Call this before TensorFlow is used. Workers find each other through `TF_CONFIG`.
    """
    if name.startswith("mirrored"):
        return mirrored(int(name.removeprefix("mirrored")))
    import tensorflow as tf

    if name.startswith("multiworker"):
        return tf.distribute.MultiWorkerMirroredStrategy()
    return None


def wait():
    """Wait until all devices have finished their work.

    On CPUs there is no need to wait, since an eager call returns after its work is done.
    """
    import tensorflow as tf

    if kind() == GPU:
        tf.test.experimental.sync_devices()
