"""Every spelling of the old API: its migration, and that both sides print the same."""

import json

import pytest

from tests.migrate.programs import cases, diff_of, migrated, outcome_of
from tests.processes import ROOT
from tests.programs_in_processes import start

CASES = cases()
# The table has what moving all names gives; by default those that work stay.
PREFER = ("tf_lso", "least")
RUNNER = str(ROOT / "tests/migrate/run_cases.py")


def test_there_are_at_least_forty():
    assert len(CASES) >= 40


@pytest.mark.parametrize("name", CASES)
def test_a_case_becomes_what_stands_there(name):
    program, diff = CASES[name]
    assert diff_of(program, migrated(program)) == diff
    assert [item for item in outcome_of(program).left if "text" not in item.why] == []


UNMODIFIED = {name: program for name, (program, _) in CASES.items()}


def printed_by(programs, folder, how=(), flags=()):
    """Runs the programs; returns name -> what each prints."""
    file = folder / "programs.json"
    file.write_text(json.dumps(programs), encoding="utf-8")
    ended = start([*how, RUNNER, str(file), *flags])
    results = [s for s in ended.stdout.splitlines() if s.startswith("RESULT ")]
    assert results, ended.stderr[-4000:]
    return json.loads(results[-1].removeprefix("RESULT "))


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What the programs print: unmodified under `tf-lso run`, and migrated alone."""
    folder = tmp_path_factory.mktemp("cases")
    run = ["-m", "tf_lso", "run"]
    new = {
        prefer: {name: migrated(p, prefer=prefer) for name, p in UNMODIFIED.items()}
        for prefer in PREFER
    }
    return {
        "unmodified": printed_by(UNMODIFIED, folder, run, ["--unmodified"]),
        **{prefer: printed_by(new[prefer], folder) for prefer in PREFER},
    }


@pytest.mark.slow
@pytest.mark.parametrize("prefer", PREFER)
@pytest.mark.parametrize("name", CASES)
def test_a_migrated_case_prints_what_it_printed_under_tf_lso_run(name, prefer, printed):
    before, after = printed["unmodified"][name], printed[prefer][name]
    assert "Traceback" not in before, before
    assert before.strip(), "it prints nothing to compare"
    assert after == before


@pytest.mark.slow
def test_the_cases_need_their_migration(tmp_path):
    """Unmodified and alone most of them fail: else the comparison would show nothing."""
    done = printed_by(UNMODIFIED, tmp_path)
    failed = [name for name, text in done.items() if "Traceback" in text]
    assert len(failed) > len(CASES) / 2
