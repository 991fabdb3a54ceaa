"""Leaves out the files that are about Keras 3 alone, where that is not."""

import pathlib

from tests.generation import HAS_KERAS3

HERE = pathlib.Path(__file__).parent

ONLY_KERAS3 = (
    "tests/checkpoints/test_four_lines.py",
    "tests/migrate/test_needs.py",
    "tests/optimizers/test_float8.py",
    "tests/optimizers/test_h5.py",
    "tests/optimizers/test_multi_optimizer.py",
    "tests/optimizers/test_scheduled.py",
    "tests/optimizers/test_state_tree.py",
    "tests/test_documentation.py",
    "tests/test_keras3_private.py",
    "tests/test_why.py",
    "tests/tools/test_benchmark.py",
    "tf_lso/optimizers/families/keras3.py",
    "tf_lso/optimizers/families/keras3_schedules.py",
    "tf_lso/optimizers/families/keras3_views.py",
    "tf_lso/policies/keras3.py",
)


def pytest_ignore_collect(collection_path):
    """Read no file that needs Keras 3 where it is not."""
    path = collection_path.relative_to(HERE).as_posix()
    return True if path in ONLY_KERAS3 and not HAS_KERAS3 else None
