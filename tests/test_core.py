"""What the core costs: tests that read programs import no TensorFlow."""

import re

import pytest

from tests.conftest import HERE
from tests.processes import ROOT, start

pytestmark = pytest.mark.slow

# Runs pytest, and fails if it passed only because TensorFlow was imported.
_WITHOUT_TENSORFLOW = """
import sys, pytest
code = pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]])
imported = {"tensorflow", "keras", "tf_keras"} & set(sys.modules)
sys.exit(f"imported: {imported}" if imported else code)
"""

# Those that read programs; the rest looks at today's TensorFlow too.
NEEDS_NO_TENSORFLOW = ("check/test_report.py", "migrate/test_tables.py")


def test_tests_that_need_no_tensorflow_import_none():
    paths = [str(HERE / name) for name in NEEDS_NO_TENSORFLOW]
    done = start(["-c", _WITHOUT_TENSORFLOW, *paths], ROOT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert re.search(r"^\d+ passed", done.stdout, re.MULTILINE), done.stdout
