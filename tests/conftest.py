"""The logical devices, fixtures and hooks that all tests share."""

import collections
import gc
import os
import pathlib
import re
import signal
import sys
import zlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest

HERE = pathlib.Path(__file__).parent

# Let failed assertions in these modules show their values, as in test files. This must happen
# before the modules are imported. A module that is already imported contains no assertions.
_HELPERS = {f"tests.{path.stem}" for path in HERE.iterdir()} - sys.modules.keys()
pytest.register_assert_rewrite(*_HELPERS)

# ruff: noqa: E402
from tests import devices
from tests.generation import HAS_KERAS3

devices.hide_others()


def pytest_configure(config):
    """Handle SIGTERM, and create the four logical CPUs of the tests.

    TensorFlow can create logical CPUs only before its first use, and test files use TensorFlow
    when they are imported. The main process of pytest-xdist runs no test and needs no CPUs.
    """
    uses_workers = config.getoption("numprocesses", None)
    is_worker = hasattr(config, "workerinput")
    # End at SIGTERM as at Ctrl-C. The tests then end the processes that they have started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if is_worker or not uses_workers:
        import tensorflow as tf

        devices.make_logical_cpus(tf, 4)
        devices.end_replicas_at_once(tf)


# The longest files of the core, which run first, so that at the end no process has to wait for
# another one. At first pytest-xdist gives the first and third file to one process, and the
# second and fourth file to the next process.
FIRST_FILES = [
    HERE / "contract/test_contract.py",
    HERE / "scaling/test_calls.py",
    HERE / "scaling/test_rule.py",
    HERE / "scaling/test_step.py",
]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Drop the tests of absent families, and run the files with long tests first."""
    items[:] = [item for item in items if not _is_of_absent_family(item)]
    _leave_families_to_all(items)
    long_files = {
        item.path
        for item in items
        if item.get_closest_marker("slow") or item.get_closest_marker("multiworker")
    }

    def order(item):
        if item.path in FIRST_FILES:
            return FIRST_FILES.index(item.path)
        return len(FIRST_FILES) + (item.path not in long_files)

    items.sort(key=order)


def pytest_collection_finish():
    """Exempt all objects that exist before the first test from garbage collection.

    Most objects of a run already exist then. Examining them took a tenth of the time of a run.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _freeze_after_each_file():
    """Exempt what the tests of a file leave behind, such as cached graphs, as above.

    Otherwise each `clear_session` of Keras, which collects garbage, takes longer and longer.
    """
    yield
    gc.collect()
    gc.freeze()


# In these folders, `tools/test` runs each test with all families.
ALL_FAMILIES = [HERE / "contract", HERE / "golden", HERE / "scaling"]


def _leave_families_to_all(items):
    """Mark as slow all but one of the tests that differ only in their family.

    The name of the test decides which family stays, so that every run has the same tests.
    """
    alike = collections.defaultdict(list)
    for item in items:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        is_placed = item.get_closest_marker("core") or item.get_closest_marker("slow")
        if (
            "family" in parameters
            and not is_placed
            and item.path.parent not in ALL_FAMILIES
        ):
            test, case = item.nodeid.split("[", 1)
            case = re.sub(rf"\b{parameters['family']}\b", "family", case)
            alike[f"{test}[{case}"].append(item)
    for name, tests in alike.items():
        del tests[zlib.crc32(name.encode()) % len(tests)]
        for item in tests:
            item.add_marker(pytest.mark.slow)


def _is_of_absent_family(item):
    """Return whether a test has the parameter or mark `keras3`, but Keras 3 is absent."""
    if HAS_KERAS3:
        return False
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    has_parameter = any(
        isinstance(value, str) and value == "keras3" for value in parameters
    )
    return has_parameter or item.get_closest_marker("keras3") is not None


@pytest.fixture(params=["keras3", "legacy", "new"])
def family(request):
    """The name of an optimizer family. `_leave_families_to_all` says when each of them runs."""
    return request.param


@pytest.fixture(scope="session")
def mirrored2():
    """The only MirroredStrategy of this process, on two logical CPUs.

    All strategies of a process share collective keys, and they abort each other if they reduce
    different dtypes. So tests with four replicas run in another process.
    """
    import tensorflow as tf

    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
