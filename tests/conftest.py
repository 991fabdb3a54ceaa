"""Logical devices, and the strategies and families that tests share."""

import gc
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest

HERE = pathlib.Path(__file__).parent

# So a failed assertion in a helper shows the values, as one in a test file does. Before
# the helpers are imported; what is imported already has no assertions.
_HELPERS = {f"tests.{path.stem}" for path in HERE.iterdir()} - sys.modules.keys()
pytest.register_assert_rewrite(*_HELPERS)

# ruff: noqa: E402
from tests import devices
from tests.generation import HAS_KERAS3

devices.hide_others()


def pytest_configure(config):
    """Register a mark, and make the four CPUs that the strategies of tests use.

    TensorFlow can only make them before anything has started it, and test files start it
    when they are imported. The process of pytest-xdist that runs no test needs none.
    """
    config.addinivalue_line("markers", "keras3: needs Keras 3, see tests/families.py")
    runs_no_test = config.getoption("numprocesses", None) and not hasattr(
        config, "workerinput"
    )
    if not runs_no_test:
        import tensorflow as tf

        devices.make_logical_cpus(tf, 4)
        devices.end_replicas_at_once(tf)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave out absent families; begin with the files of long tests, so none waits."""
    items[:] = [item for item in items if not _is_of_absent_family(item)]
    long = {
        item.path
        for item in items
        if item.get_closest_marker("slow") or item.get_closest_marker("multiworker")
    }
    items.sort(key=lambda item: item.path not in long)


def pytest_collection_finish():
    """Let the garbage collector pass over what is there before the first test.

    That is most of what there ever is; looking through it took a tenth of the time.
    """
    gc.collect()
    gc.freeze()


def _is_of_absent_family(item):
    """Whether a test has a family, as a parameter or mark, that is not there."""
    if HAS_KERAS3:
        return False
    values = item.callspec.params.values() if hasattr(item, "callspec") else ()
    named = [value for value in values if isinstance(value, str)]
    return "keras3" in [*named, *(mark.name for mark in item.iter_markers())]


@pytest.fixture(params=["keras3", "legacy", "new"])
def family(request):
    """The name of each optimizer family in turn; see `_is_of_absent_family`."""
    return request.param


@pytest.fixture(scope="session")
def mirrored2():
    """The one MirroredStrategy of this process: two logical CPUs.

    Strategies of one process share collective keys, and abort each other where they
    reduce different dtypes; four replicas run in a process of their own.
    """
    import tensorflow as tf

    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
