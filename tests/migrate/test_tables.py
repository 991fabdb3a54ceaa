"""For each program in the tables, `check` and `migrate` report what the table says.

The tables are the text files in tests/check and tests/migrate. `programs.py` explains their
format.
"""

import shlex

import pytest

from tests.migrate.programs import table, told
from tests.processes import ROOT
from tf_lso.migrate import engine, findings

pytestmark = pytest.mark.core

TABLES = sorted(ROOT.glob("tests/check/*.txt")) + sorted(
    ROOT.glob("tests/migrate/*.txt")
)
CASES = {f"{p.stem}: {name}": case for p in TABLES for name, case in table(p).items()}
PROGRAMS = {program: name for name, (program, _, _) in CASES.items()}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_command_tells_what_stands_in_the_table(case):
    program, header, expected = case
    command, *flags = shlex.split(header)
    found = told(command, program, *flags)
    assert [line for line, _ in found] == [line.split(" ~ ")[0] for line in expected]
    for line, (_, said) in zip(expected, found):
        assert [words for words in line.split(" ~ ")[1:] if words not in said] == []


@pytest.mark.parametrize("program", PROGRAMS, ids=PROGRAMS.values())
def test_what_fails_is_changed_or_listed(program):
    lost = [
        one
        for one in engine.examine(program, engine.Options()).findings
        if one.fails and not (one.fix or one.why_not)
    ]
    assert [(one.line, one.rule, one.verdict.name) for one in lost] == []


@pytest.mark.parametrize("program", PROGRAMS, ids=PROGRAMS.values())
def test_what_is_called_fixed_is_changed(program):
    result = engine.examine(program, engine.Options())
    replaced = [f for f in result.findings if f.fix and f.fix == f.verdict.replacement]
    assert [(one.line, one.fix) for one in replaced if not one.edits] == []
    again = engine.examine(result.new, engine.Options())
    assert [(one.line, one.fix) for one in again.findings if one.fix] == []


def test_every_rule_is_in_a_table():
    lines = [line for _, _, lines in CASES.values() for line in lines]
    assert set(findings.RULES) <= {word for line in lines for word in line.split()}


def test_a_line_of_a_table_that_is_wrong_fails():
    program, header, (line, *_) = CASES["names: an attribute of tf, check"]
    for wrong in ([], [line, line], [f"{line}s"], [f"{line} ~ no such words"]):
        with pytest.raises(AssertionError):
            test_a_command_tells_what_stands_in_the_table((program, header, wrong))
