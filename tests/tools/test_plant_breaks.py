"""Each break of tools/breaks.toml can be planted; the run itself takes too long here."""

import subprocess
import sys

import pytest

from tests.processes import ROOT


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib came with Python 3.11")
def test_each_row_fits_the_sources():
    command = [sys.executable, ROOT / "tools" / "plant_breaks", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(" rows fit, 0 do not\n")
