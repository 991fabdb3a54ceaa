"""A program that a rule has fixed prints what it printed before.

The fix keeps all other bytes of the file, and a second migration changes nothing.
"""

import json
import pathlib

import pytest

from tests.generation import HAS_KERAS3, NO_CHECKPOINT
from tests.migrate.programs import example, migrated, run, table, write
from tests.migrate.test_cases import both_printed
from tf_lso.migrate import findings

# Maps each rule that has a fix to a program that the rule finds.
TABLE = table(pathlib.Path(__file__).with_name("round_trip.txt"))
PROGRAMS = {name.partition(":")[0]: case[0] for name, case in TABLE.items()}


def test_every_rule_with_a_fix_is_here():
    assert set(PROGRAMS) == {rule for rule in findings.RULES if example(rule)[1]}


# The rules whose old programs can run. Keras 3 refuses the argument that LSO109 removes. The
# program of LSO111 puts an optimizer into a checkpoint.
RUN = [
    pytest.param(rule, marks=NO_CHECKPOINT if rule == "LSO111" else ())
    for rule in PROGRAMS
    if rule != "LSO109"
]


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    return both_printed(PROGRAMS, tmp_path_factory.mktemp("round_trip"))


@pytest.mark.skipif(not HAS_KERAS3, reason="run_cases.py speaks to Keras 3")
@pytest.mark.parametrize("rule", RUN)
def test_the_fixed_program_prints_what_the_old_one_printed(rule, printed):
    old, new = printed
    assert "Traceback" not in old[rule] and old[rule].strip(), old[rule]
    assert new[rule] == old[rule]


# Maps a way to encode a text to the function that encodes it.
WAYS = {
    "carriage returns": lambda text: text.replace("\n", "\r\n").encode(),
    "byte order mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "latin-1": lambda text: f"# coding: latin-1\n{text}".encode("latin-1"),
    "cp1252": lambda text: f"#!\n# vim: fileencoding=cp1252\n{text}".encode("cp1252"),
    "no final newline": lambda text: text.rstrip("\n").encode(),
    "form feed": lambda text: ("\x0c\n" + text).encode(),
    "tabs": lambda text: text.encode(),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rule", PROGRAMS)
def test_the_rest_stays_byte_for_byte(rule, way, folder):
    before, after = example(rule)
    tail = "# \xe9  \nif 1:\n\tx = 'y'   \n"
    path = write("a.py", WAYS[way](before + tail))
    assert run("migrate", "--write", "a.py")[0] == 0
    assert path.read_bytes() == WAYS[way](after + tail)
    assert run("migrate", "--check", "a.py")[0] == 0


@pytest.mark.parametrize("rule", PROGRAMS)
def test_a_notebook_keeps_its_other_cells_and_magics(rule):
    before, _ = example(rule)
    magic = "%matplotlib inline\n!ls  \n"
    text = {"cell_type": "markdown", "source": [before]}
    code = {"cell_type": "code", "metadata": {}, "source": magic + before}
    old = json.dumps({"cells": [text, code]}, indent=3)
    new, _ = migrated(old, name="a.ipynb")
    same, changed = json.loads(new)["cells"]
    assert same == text
    assert changed["source"].startswith(magic) and "tf_lso" in changed["source"]
