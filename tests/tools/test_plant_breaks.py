"""Each break of tools/breaks.toml can be planted; the run itself takes too long here."""

import sys

import pytest

from tests.processes import ROOT, start


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib came with Python 3.11")
def test_each_row_fits_the_sources():
    done = start([ROOT / "tools" / "plant_breaks", "--check"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(" rows fit, 0 do not\n")
