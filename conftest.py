"""The option --gpu; and files about Keras 3 alone are left out where that is not."""

import os
import pathlib
import sys

if "--gpu" in sys.argv:  # before tests/conftest.py hides them
    os.environ.setdefault("TF_LSO_DEVICES", "GPU")

from tests.generation import HAS_KERAS3

HERE = pathlib.Path(__file__).parent

ONLY_KERAS3 = (
    "tests/checkpoints/test_four_lines.py",
    "tests/optimizers/test_float8.py",
    "tests/optimizers/test_keras3_state.py",
    "tests/optimizers/test_multi_optimizer.py",
    "tests/optimizers/test_scheduled.py",
    "tests/test_documentation.py",
    "tests/test_why.py",
    "tests/tools/test_benchmark.py",
    "tf_lso/optimizers/families/keras3.py",
    "tf_lso/frameworks/keras3_views.py",
)


def pytest_addoption(parser):
    """Add the option of tools/test."""
    text = "run tests/gpu on the GPUs of this machine, and print a report"
    parser.addoption("--gpu", action="store_true", help=text)


def pytest_ignore_collect(collection_path, config):
    """Read no file that needs Keras 3 or GPUs where it is not asked for or not there."""
    path = collection_path.relative_to(HERE).as_posix()
    absent = path in ONLY_KERAS3 and not HAS_KERAS3
    return True if absent or (path == "tests/gpu" and not config.option.gpu) else None
