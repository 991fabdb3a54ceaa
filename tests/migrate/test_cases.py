"""The programs in `cases.txt` print the same under `tf-lso run` and after their migration.

`test_tables.py` tests what the migration changes in them.
"""

import json

import pytest

from tests.generation import NO_WRAPPED_H5, limit
from tests.migrate.programs import migrated, read_table
from tests.old_programs.test_programs import run
from tests.processes import ROOT

# Maps the names in the table to the programs.
PROGRAMS = {
    key.removesuffix(", gives"): case.program
    for key, case in read_table(ROOT / "tests/migrate/cases.txt").items()
}
RUNNER = str(ROOT / "tests/migrate/run_cases.py")
# Programs that some version of Keras itself cannot run.
LIMITS = {
    "custom objects": NO_WRAPPED_H5,
    "the scale as it was read": limit("`assign` of this Keras returns None", "3.0"),
    "compat of compat": limit("this TensorFlow has no `compat.v1.compat.v2`", "2.12"),
    "private modules of keras": limit(
        "this Keras has no `PolicyV1` in `keras.src`", "2.12", "2.15"
    ),
}


def test_the_table_has_at_least_forty_programs():
    assert len(PROGRAMS) >= 40


def printed_by(programs, folder, before=(), after=()):
    """Run programs by `run_cases.py`. Return a dict from their names to their outputs.

    Args:
      programs: dict from names to programs.
      folder: the folder in which the programs run.
      before: arguments of Python before `run_cases.py`.
      after: flags of `run_cases.py`.
    """
    file = folder / "programs.json"
    file.write_text(json.dumps(programs))
    command = [*before, RUNNER, str(file), *after]
    printed, _, errors = run(command, folder, after_tensorflow=True)
    assert printed, errors[-4000:]
    return printed


def printed_before_and_after_migration(programs, folder):
    """Return the outputs of the programs under `tf-lso run`, and of the migrated programs."""
    before = printed_by(programs, folder, ["-m", "tf_lso", "run"], ["--unmodified"])
    new = {name: migrated(program)[0] for name, program in programs.items()}
    return before, printed_by(new, folder)


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cases")
    return printed_before_and_after_migration(PROGRAMS, folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=LIMITS.get(name, ())) for name in PROGRAMS]
)
def test_a_migrated_program_prints_what_it_printed_under_tf_lso_run(name, printed):
    before, after = printed
    assert "Traceback" not in before[name], before[name]
    assert before[name].strip(), "The program prints nothing to compare."
    assert after[name] == before[name]


@pytest.mark.slow
def test_most_programs_fail_without_migration(tmp_path):
    """Otherwise the test above would not test the migration."""
    printed = printed_by(PROGRAMS, tmp_path)
    failed = [name for name, text in printed.items() if "Traceback" in text]
    assert len(failed) > len(PROGRAMS) / 2
