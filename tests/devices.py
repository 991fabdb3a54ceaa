"""Which devices tests and measurements use: logical CPUs, or the machine's GPUs.

`TF_LSO_DEVICES=GPU` in the environment chooses GPUs, as `tools/test --gpu` does. Nothing
here imports TensorFlow before it is needed.
"""

import os

CPU, GPU = "CPU", "GPU"
VARIABLE = "TF_LSO_DEVICES"


def kind():
    """`CPU` or `GPU`."""
    chosen = os.environ.get(VARIABLE) or CPU
    if chosen not in (CPU, GPU):
        raise ValueError(f"{VARIABLE}={chosen}: use {CPU} or {GPU}.")
    return chosen


def environment():
    """What a process needs in its environment to use these devices."""
    if kind() == CPU:
        return {"CUDA_VISIBLE_DEVICES": "-1"}
    # Several processes, one after the other, and perhaps those of other people.
    return {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}


def hide_others():
    """Let TensorFlow, which is not imported yet, see these devices alone."""
    for name, value in environment().items():
        os.environ.setdefault(name, value)


def make_logical_cpus(tensorflow, count):
    """Make so many CPUs of one, before anything has started TensorFlow."""
    tensorflow.config.set_logical_device_configuration(
        tensorflow.config.list_physical_devices(CPU)[0],
        [tensorflow.config.LogicalDeviceConfiguration()] * count,
    )


def end_replicas_at_once(tensorflow):
    """Let `strategy.run` look each 5 ms whether its threads have ended.

    TensorFlow does so each second: a thread that lives a moment longer costs all of it.
    """
    coordinator = tensorflow.train.Coordinator
    wait = coordinator.wait_for_stop

    def wait_for_stop(self, timeout=None):
        return wait(self, timeout and min(timeout, 0.005))

    coordinator.wait_for_stop = wait_for_stop


def mirrored(count):
    """A MirroredStrategy on so many devices. Call it before anything uses TensorFlow."""
    import tensorflow as tf

    if kind() == CPU:
        make_logical_cpus(tf, count)
    return tf.distribute.MirroredStrategy([f"{kind()}:{i}" for i in range(count)])


def strategy(name):
    """The strategy that a command calls mirrored2 or multiworker, say; else None.

    Call it before anything uses TensorFlow. Workers find each other by `TF_CONFIG`.
    """
    if name.startswith("mirrored"):
        return mirrored(int(name.removeprefix("mirrored")))
    import tensorflow as tf

    is_one_of_several = name.startswith("multiworker")
    return tf.distribute.MultiWorkerMirroredStrategy() if is_one_of_several else None


def wait():
    """Return when all devices have done what they were given.

    On CPUs an eager call returns when its work is done.
    """
    import tensorflow as tf

    if kind() == GPU:
        tf.test.experimental.sync_devices()
