"""Which files are read, logical devices, and the strategies that tests share.

Nothing here imports TensorFlow: where no test file does, the run needs none.
"""

import gc
import importlib.abc
import importlib.util
import itertools
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
from tests import devices, pairs
from tests.generation import HAS_KERAS3

devices.hide_others()


class _WithDevices(importlib.abc.MetaPathFinder):
    """Makes four logical CPUs when TensorFlow is imported, before anything starts it."""

    def find_spec(self, name, path=None, target=None):
        if name != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        sys.meta_path.insert(0, self)  # tf_lso asks for it before it imports it
        load = spec.loader.exec_module

        def load_and_configure(module):
            sys.meta_path.remove(self)
            load(module)
            module.config.set_logical_device_configuration(
                module.config.list_physical_devices("CPU")[0],
                [module.config.LogicalDeviceConfiguration()] * 4,
            )
            devices.end_replicas_at_once(module)

        spec.loader.exec_module = load_and_configure
        return spec


if "tensorflow" not in sys.modules:
    sys.meta_path.insert(0, _WithDevices())


def pytest_ignore_collect(collection_path, config):
    """Read only the files that mark a test as core, where only the core is asked for."""
    if config.option.markexpr != "core" or collection_path.suffix != ".py":
        return None
    marks_core = "pytest.mark.core" in collection_path.read_text(encoding="utf-8")
    return None if marks_core else True


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
    _mark_beyond_pairs(items)


def pytest_collection_finish():
    """Let the garbage collector pass over what is there before the first test.

    That is most of what there ever is; looking through it took a tenth of the time.
    """
    gc.collect()
    gc.freeze()


def _mark_beyond_pairs(items):
    """Mark as slow the cases of a test whose values meet in pairs in other cases too."""
    tests = {}
    for item in items:
        if hasattr(item, "callspec") and not item.get_closest_marker("slow"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tests.values():
        core = [case for case in cases if case.get_closest_marker("core")]
        others = [case for case in cases if case not in core]
        met = set().union(*map(_pairs, core))
        for case in set(others) - set(pairs.pairwise(others, met, _pairs)):
            case.add_marker("slow")


def _pairs(item):
    """The pairs of values of the parameters of a test, or its one value."""
    plain = (str, bool, int, float, type(None))  # others are themselves
    values = [
        (name, repr(value) if isinstance(value, plain) else id(value))
        for name, value in sorted(item.callspec.params.items())
    ]
    return set(itertools.combinations(values, min(2, len(values))))


def pytest_configure(config):
    """Register the mark of tests that are about Keras 3 itself."""
    config.addinivalue_line("markers", "keras3: needs Keras 3, see tests/families.py")


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
