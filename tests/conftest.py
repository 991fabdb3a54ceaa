"""Which tests are the core, logical devices, and the strategies that tests share.

Nothing here imports TensorFlow: where no test file does, the run needs none.
"""

import collections
import functools
import importlib.abc
import importlib.util
import os
import pathlib
import re
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest

HERE = pathlib.Path(__file__).parent

# So a failed assertion in a helper shows the values, as one in a test file does. Before
# the helpers are imported; what is imported already has no assertions.
_HELPERS = {f"tests.{path.stem}" for path in HERE.iterdir()} - sys.modules.keys()
pytest.register_assert_rewrite(*_HELPERS)

# ruff: noqa: E402
from tests import devices, limits
from tests.generation import HAS_KERAS3

devices.hide_others()


class _WithDevices(importlib.abc.MetaPathFinder):
    """Makes four logical CPUs when TensorFlow is imported, before anything starts it."""

    def find_spec(self, name, path=None, target=None):
        if name != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def load_and_configure(module):
            load(module)
            module.config.set_logical_device_configuration(
                module.config.list_physical_devices("CPU")[0],
                [module.config.LogicalDeviceConfiguration()] * 4,
            )

        spec.loader.exec_module = load_and_configure
        return spec


if "tensorflow" not in sys.modules:
    sys.meta_path.insert(0, _WithDevices())

# The core: file or folder -> pattern that is searched in the name of the test with its
# parameters. `tools/test --core` runs these tests; the other files are not even read.
CORE = {
    "check": "",
    # What Keras itself saves and loads changes most from version to version.
    "checkpoints/test_four_lines.py": r"^test_to_keras\[TF2\.4\.4",
    "checkpoints/test_models.py": r"TF2\.15\.1-(bilstm|conv|subclassed)\]$",
    "contract/test_contract.py": "(?!)",  # marks its own: cases by pairs
    "golden/test_trajectories.py": (
        r"^test_(scale_and_counts|variables_and_slots)\["
        r"(v2-RMSprop-eager-(legacy|keras3)|new-RMSprop-eager-new)\]$"
    ),
    "mirrors/test_api_table.py": "",
    "optimizers/test_apply_arguments.py": r"\beager-",
    "optimizers/test_attributes.py": r"inner_loss_scale_factor|^test_apply_with",
    "optimizers/test_families.py": "",
    "optimizers/test_refusals.py": "",
    "source": "",
    "scaling/test_calls.py": "",
    "scaling/test_finite.py": "",
    "scaling/test_gradients.py": "",
    "scaling/test_rule.py": "",
    "scaling/test_step.py": "",
    "state/test_resume.py": (
        r"^test_goes_on_bit_for_bit\[(checkpoint, then built|\.keras|\.h5"
        r"|built, then \.weights\.h5|deepcopy of the model), \w+, amsgrad,"
    ),
    "test_core.py": "",
}

# Of the cases of each test that is neither core nor slow, tools/test runs one in so many.
# 11 has no factor in common with what most tests are run with: three families, and two to
# four modes, protocols, strategies or formats. So each of these has its turn.
ONE_IN = 11


def _name(path):
    """The path below this folder, empty for one that is elsewhere."""
    return path.relative_to(HERE).as_posix() if path.is_relative_to(HERE) else ""


@functools.cache
def in_core(path):
    """The pattern of the core for a file or a folder above one, or None."""
    for name, pattern in CORE.items():
        if f"{_name(path)}/".startswith(f"{name}/"):
            return pattern
    return None


def _holds_core(folder):
    return any((HERE / name).is_relative_to(folder) for name in CORE)


def pytest_ignore_collect(collection_path, config):
    """Read the files of the core only, where only the core is asked for."""
    if config.option.markexpr != "core":
        return None
    if in_core(collection_path) is not None or _holds_core(collection_path):
        return None
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the core, the rest, and what fails by a limit of this Keras.

    Begin with the files of long tests, so that no process waits.
    """
    for item in items:
        pattern = in_core(item.path)
        if pattern is not None and re.search(pattern, item.name):
            item.add_marker("core")
        limit = limits.here(item.nodeid)
        if limit:
            item.add_marker(pytest.mark.xfail(reason=limit.reason, strict=True))
    _mark_rest(items)
    items[:] = [item for item in items if not _is_of_absent_family(item)]
    long = {
        item.path
        for item in items
        if item.get_closest_marker("slow") or item.get_closest_marker("multiworker")
    }
    items.sort(key=lambda item: item.path not in long)


def _mark_rest(items):
    """Mark the cases that `ONE_IN` leaves to tools/test --all."""
    seen = collections.Counter()
    for item in items:
        if item.get_closest_marker("slow") or item.get_closest_marker("core"):
            continue
        test = item.nodeid.partition("[")[0]
        if seen[test] % ONE_IN:
            item.add_marker("rest")
        seen[test] += 1


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
