"""The records are as they were made: nobody has edited one, to let a test pass, say."""

import hashlib

import pytest

from tests.golden import harness

# A file is never replaced; what is recorded later goes into another beside it.
SHA256 = {
    "behaviour.json.gz": "2ae3f188410e36a76de5543dae918d38f5b4488627dd6998c128ae8978c27fce",
    "configs.json.gz": "af08b324dc8617b677c92d3cf68d00f0522660a0c4ebf0e497f6f328cedb6515",
    "golden.json.gz": "af0b2da1c08c1721eba6cd184124bb5aa151e0188c444722e5dc074dbe567d4e",
    "training.json.gz": "59786cc4979cc34157f83de93f46fa8745dd549d17731ce429e9412de19132cc",
    "../../mirrors/record/api.json": (
        "bd9e3d80931bc419f7f1e88d66802ad14740a41297cc0d6987bd21882f846642"
    ),
}


@pytest.mark.parametrize("file", SHA256)
def test_a_file_is_as_it_was_made(file):
    content = (harness.RECORDS / file).read_bytes()
    assert hashlib.sha256(content).hexdigest() == SHA256[file]


def test_every_file_is_checked():
    assert {path.name for path in harness.RECORDS.glob("*.gz")} <= SHA256.keys()
