"""A program that a rule has fixed prints what it printed before.

The fix keeps all other bytes of the file, and a second migration changes nothing.
"""

import json

import pytest

from tests.generation import HAS_KERAS3, NO_CHECKPOINT
from tests.migrate.programs import example, migrated, read_table, run, write
from tests.migrate.test_cases import printed_before_and_after_migration
from tests.processes import ROOT
from tf_lso.migrate import findings

# Maps each rule that has a fix to a program that the rule finds.
PROGRAMS = {
    key.partition(":")[0]: case.program
    for key, case in read_table(ROOT / "tests/migrate/round_trip.txt").items()
}


def test_every_rule_with_a_fix_has_a_program():
    assert set(PROGRAMS) == {rule for rule in findings.RULES if example(rule)[1]}


# The rules whose old programs can run. Keras 3 refuses the argument that LSO109 removes. The
# program of LSO111 puts an optimizer into a checkpoint.
RUNNABLE = [
    pytest.param(rule, marks=NO_CHECKPOINT if rule == "LSO111" else ())
    for rule in PROGRAMS
    if rule != "LSO109"
]


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("round_trip")
    return printed_before_and_after_migration(PROGRAMS, folder)


@pytest.mark.skipif(not HAS_KERAS3, reason="run_cases.py speaks to Keras 3")
@pytest.mark.parametrize("rule", RUNNABLE)
def test_the_fixed_program_prints_what_the_old_one_printed(rule, printed):
    before, after = printed
    assert "Traceback" not in before[rule], before[rule]
    assert before[rule].strip(), "The program prints nothing to compare."
    assert after[rule] == before[rule]


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
@pytest.mark.parametrize("rule", PROGRAMS)
def test_a_fix_keeps_all_other_bytes(rule, encoding, folder):
    encode = ENCODINGS[encoding]
    before, after = example(rule)
    other_code = "# \xe9  \nif 1:\n\tx = 'y'   \n"
    path = write("a.py", encode(before + other_code))
    assert run("migrate", "--write", "a.py")[0] == 0
    assert path.read_bytes() == encode(after + other_code)
    assert run("migrate", "--check", "a.py")[0] == 0


@pytest.mark.parametrize("rule", PROGRAMS)
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
