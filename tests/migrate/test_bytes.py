"""A fix keeps all other bytes of the file."""

import pytest

from tests.migrate.programs import example, run, write

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


@pytest.mark.parametrize("encode", ENCODINGS.values(), ids=ENCODINGS)
def test_a_fix_keeps_all_other_bytes(encode, folder):
    before, after = example("LSO101")
    other_code = "# \xe9  \nif 1:\n\tx = 'y'   \n"
    path = write("a.py", encode(before + other_code))
    assert run("migrate", "--write", "a.py")[0] == 0
    assert path.read_bytes() == encode(after + other_code)
    assert run("migrate", "--check", "a.py")[0] == 0
