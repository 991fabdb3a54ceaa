"""The recorded files are unchanged, so nobody has edited one to let a test pass.

A recorded file is never replaced. Later recordings go into new files in the same folder.
"""

import hashlib

import pytest

from tests.golden import harness

# The pairs of checksum and file name that `sha256sum` wrote.
SUMS = [
    line.split() for line in (harness.RECORDS / "SHA256SUMS").read_text().splitlines()
]


@pytest.mark.parametrize(("expected", "file"), SUMS, ids=[file for _, file in SUMS])
def test_a_file_is_as_it_was_made(expected, file):
    content = (harness.RECORDS / file).read_bytes()
    assert hashlib.sha256(content).hexdigest() == expected


def test_every_file_has_a_checksum():
    files = {path.name for path in harness.RECORDS.glob("*.gz")}
    assert files <= {file for _, file in SUMS}
