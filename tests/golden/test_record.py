"""The records are as they were made: nobody has edited one, to let a test pass, say.

A file is never replaced; what is recorded later goes into another beside it.
"""

import hashlib

import pytest

from tests.golden import harness

# In the form of `sha256sum`: the sum and the file of each line.
SUMS = [
    line.split() for line in (harness.RECORDS / "SHA256SUMS").read_text().splitlines()
]


@pytest.mark.parametrize(("expected", "file"), SUMS, ids=[file for _, file in SUMS])
def test_a_file_is_as_it_was_made(expected, file):
    content = (harness.RECORDS / file).read_bytes()
    assert hashlib.sha256(content).hexdigest() == expected


def test_every_file_is_checked():
    assert {path.name for path in harness.RECORDS.glob("*.gz")} <= {f for _, f in SUMS}
