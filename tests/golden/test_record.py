"""The records are as they were made: nobody has edited one, to let a test pass, say."""

import hashlib
import pathlib

import pytest

from tests.golden import harness

# A file is never replaced; what is recorded later goes into another beside it.
SHA256 = {
    "behaviour": "2ae3f188410e36a76de5543dae918d38f5b4488627dd6998c128ae8978c27fce",
    "configs": "af08b324dc8617b677c92d3cf68d00f0522660a0c4ebf0e497f6f328cedb6515",
    "golden": "af0b2da1c08c1721eba6cd184124bb5aa151e0188c444722e5dc074dbe567d4e",
    "training": "59786cc4979cc34157f83de93f46fa8745dd549d17731ce429e9412de19132cc",
}


@pytest.mark.parametrize("file", SHA256)
def test_a_file_is_as_it_was_made(file):
    content = (harness.RECORDS / f"{file}.json.gz").read_bytes()
    assert hashlib.sha256(content).hexdigest() == SHA256[file]


def test_the_signatures_of_the_real_versions_are_as_they_were_made():
    path = pathlib.Path(__file__).parents[1] / "mirrors" / "record" / "api.json"
    assert hashlib.sha256(path.read_bytes()).hexdigest() == (
        "bd9e3d80931bc419f7f1e88d66802ad14740a41297cc0d6987bd21882f846642"
    )


def test_every_file_is_checked():
    files = {path.name.partition(".")[0] for path in harness.RECORDS.glob("*.gz")}
    assert files == SHA256.keys()
