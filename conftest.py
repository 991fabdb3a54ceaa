"""Add the option `--gpu`, and leave out files whose requirements are not installed."""

import os
import pathlib
import sys

# tests/conftest.py hides the GPUs when it is imported, so choose the devices before that.
if "--gpu" in sys.argv:
    os.environ.setdefault("TF_LSO_DEVICES", "GPU")

from tests.generation import HAS_KERAS3

HERE = pathlib.Path(__file__).parent

NEED_KERAS3 = (
    "tests/checkpoints/test_four_lines.py",
    "tests/optimizers/test_float8.py",
    "tests/optimizers/test_keras3_state.py",
    "tests/optimizers/test_multi_optimizer.py",
    "tests/test_documentation.py",
    "tests/test_why.py",
    "tests/tools/test_benchmark.py",
    "tf_lso/optimizers/families/keras3.py",
    "tf_lso/frameworks/keras3_views.py",
)


def pytest_addoption(parser):
    """Add the option `--gpu`. `tools/test --gpu` passes this option to pytest."""
    text = "run tests/gpu on the GPUs of this machine, and print a report"
    parser.addoption("--gpu", action="store_true", help=text)


def pytest_ignore_collect(collection_path, config):
    """Ignore files that need Keras 3 if it is absent, and tests/gpu without `--gpu`."""
    path = collection_path.relative_to(HERE).as_posix()
    if path in NEED_KERAS3 and not HAS_KERAS3:
        return True
    if path == "tests/gpu" and not config.option.gpu:
        return True
    return None  # pytest decides
