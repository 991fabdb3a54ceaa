"""A fix keeps all other bytes of the file."""

import json

import pytest

from tests.migrate.programs import example, migrated, run, write
from tf_lso.migrate import findings

# The rules that rewrite the example on their page.
WITH_FIX = [rule for rule in findings.RULES if example(rule)[1]]

# Maps a way to encode a text to the function that encodes it.
ENCODINGS = {
    "carriage returns": lambda text: text.replace("\n", "\r\n").encode(),
    "byte order mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "latin-1": lambda text: f"# coding: latin-1\n{text}".encode("latin-1"),
    "cp1252": lambda text: f"#!\n# vim: fileencoding=cp1252\n{text}".encode("cp1252"),
    "no final newline": lambda text: text.rstrip("\n").encode(),
    "form feed": lambda text: ("\x0c\n" + text).encode(),
    "tabs": lambda text: text.encode(),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("rule", WITH_FIX)
def test_a_fix_keeps_all_other_bytes(rule, encoding, folder):
    encode = ENCODINGS[encoding]
    before, after = example(rule)
    other_code = "# \xe9  \nif 1:\n\tx = 'y'   \n"
    path = write("a.py", encode(before + other_code))
    assert run("migrate", "--write", "a.py")[0] == 0
    assert path.read_bytes() == encode(after + other_code)
    assert run("migrate", "--check", "a.py")[0] == 0


@pytest.mark.parametrize("rule", WITH_FIX)
def test_a_notebook_keeps_its_other_cells_and_magics(rule):
    before, _ = example(rule)
    magic = "%matplotlib inline\n!ls  \n"
    markdown = {"cell_type": "markdown", "source": [before]}
    code = {"cell_type": "code", "metadata": {}, "source": magic + before}
    notebook = json.dumps({"cells": [markdown, code]}, indent=3)
    new_notebook, _ = migrated(notebook, name="a.ipynb")
    new_markdown, new_code = json.loads(new_notebook)["cells"]
    assert new_markdown == markdown
    assert new_code["source"].startswith(magic)
    assert "tf_lso" in new_code["source"]
