"""Strategies over logical CPU devices or processes, and what their replicas are fed."""

import contextlib

import tensorflow as tf

from tools.benchmarks import choices


def start(name):
    """Make the logical devices and the strategy; None for the default one.

    Must come before TensorFlow makes its devices.
    """
    devices = choices.STRATEGIES[name].devices
    if devices > 1:
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * devices,
        )
    if choices.STRATEGIES[name].processes > 1:
        return tf.distribute.MultiWorkerMirroredStrategy()
    if devices > 1:
        return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(devices)])
    return None


def is_chief(strategy):
    """Whether this process is the one that reports."""
    resolver = strategy and strategy.cluster_resolver
    return not resolver or not resolver.cluster_spec() or resolver.task_id == 0


def scope(strategy):
    return strategy.scope() if strategy else contextlib.nullcontext()


def feed(strategy, make):
    """What `make(replica)` returns, for each local replica."""
    if strategy is None:
        return make(0)
    return strategy.experimental_distribute_values_from_function(
        lambda context: make(context.replica_id_in_sync_group)
    )


def everywhere(strategy, replica_step):
    """`replica_step` on every replica."""
    if strategy is None:
        return replica_step

    def placed_step(*inputs):
        # An argument has no device in a traced function, and Keras 3's sum over the
        # replicas goes by the device. This copies nothing.
        return replica_step(*(tf.identity(value) for value in inputs))

    return lambda *inputs: strategy.run(placed_step, args=inputs)
