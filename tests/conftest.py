"""Logical devices, before TensorFlow starts, and the strategies that tests share."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import pytest
import tensorflow as tf

from tests.families import FAMILIES

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 4,
)


def pytest_collection_modifyitems(items):
    """Begin with the files of long tests, so that at the end no process waits."""
    long = {
        item.path
        for item in items
        if item.get_closest_marker("slow") or item.get_closest_marker("multiworker")
    }
    items.sort(key=lambda item: item.path not in long)


@pytest.fixture(params=FAMILIES)
def family(request):
    """The name of each optimizer family in turn."""
    return request.param


@pytest.fixture(scope="session")
def mirrored2():
    """The one MirroredStrategy of this process: two logical CPUs.

    Strategies of one process share collective keys, and abort each other where they
    reduce different dtypes; four replicas run in a process of their own.
    """
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
