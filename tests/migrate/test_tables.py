"""For each program in the tables, `check` and `migrate` report what the table says.

The tables are the text files in tests/check and tests/migrate. `programs.py` explains their
format.
"""

import shlex

import pytest

from tests.migrate.programs import (
    Case,
    read_table,
    reported_by_check,
    reported_by_migrate,
)
from tests.processes import ROOT
from tf_lso.migrate import engine, findings

# All cases, by names such as "left: a star, gives". `PROGRAMS` maps each program to one of
# these names.
CASES = {}
for path in (*ROOT.glob("tests/check/*.txt"), *ROOT.glob("tests/migrate/*.txt")):
    for key, case in read_table(path).items():
        CASES[f"{path.stem}: {key}"] = case
PROGRAMS = {case.program: name for name, case in CASES.items()}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_command_reports_what_the_table_says(case):
    command, *flags = shlex.split(case.header)
    if command == "check":
        reported = reported_by_check(case.program, *flags)
    else:
        assert command == "gives"
        reported = reported_by_migrate(case.program, *flags)
    expected_lines = [line.split(" ~ ")[0] for line in case.expected]
    assert [line for line, _ in reported] == expected_lines
    for line, (_, explanation) in zip(case.expected, reported, strict=True):
        for words in line.split(" ~ ")[1:]:
            assert words in explanation


@pytest.mark.parametrize("program", PROGRAMS, ids=PROGRAMS.values())
def test_each_use_that_fails_is_fixed_or_listed_with_a_reason(program):
    for finding in engine.examine(program, engine.Options()).findings:
        if finding.fails:
            assert finding.fix or finding.why_not, finding


@pytest.mark.parametrize("program", PROGRAMS, ids=PROGRAMS.values())
def test_each_replacement_changes_the_program_and_is_not_found_again(program):
    result = engine.examine(program, engine.Options())
    for finding in result.findings:
        if finding.fix and finding.fix == finding.verdict.replacement:
            assert finding.edits, finding
    again = engine.examine(result.new, engine.Options())
    assert [finding for finding in again.findings if finding.fix] == []


def test_every_rule_is_in_a_table():
    words = set()
    for case in CASES.values():
        for line in case.expected:
            words.update(line.split())
    assert words >= set(findings.RULES)


def test_a_wrong_table_fails():
    case = CASES["names: an attribute of tf, check"]
    line = case.expected[0]
    for wrong in ([], [line, line], [f"{line}s"], [f"{line} ~ no such words"]):
        with pytest.raises(AssertionError):
            test_a_command_reports_what_the_table_says(
                Case(case.program, case.header, wrong)
            )
