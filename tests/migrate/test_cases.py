"""The programs in `cases.txt` print the same under `tf-lso run` and after their migration.

`test_tables.py` tests what the migration changes in them.
"""

import json
import pathlib

import pytest

from tests.generation import NO_WRAPPED_H5, limit
from tests.migrate.programs import migrated, table
from tests.old_programs.test_programs import run
from tests.processes import ROOT

TABLE = table(pathlib.Path(__file__).with_name("cases.txt"))
CASES = {name.removesuffix(", gives"): case[0] for name, case in TABLE.items()}
RUNNER = str(ROOT / "tests/migrate/run_cases.py")
LIMITS = {
    "custom objects": NO_WRAPPED_H5,
    "the scale as it was read": limit("`assign` of this Keras returns None", "3.0"),
    "compat of compat": limit("this TensorFlow has no `compat.v1.compat.v2`", "2.12"),
    "private modules of keras": limit(
        "this Keras has no `PolicyV1` in `keras.src`", "2.12", "2.15"
    ),
}


def test_there_are_at_least_forty():
    assert len(CASES) >= 40


def printed_by(programs, folder, how=(), flags=()):
    """Run programs by `run_cases.py`. Return a dict from their names to their outputs.

    Args:
      programs: dict from names to programs.
      folder: the folder in which the programs run.
      how: the arguments of Python before `run_cases.py`.
      flags: the flags of `run_cases.py`.
    """
    file = folder / "programs.json"
    file.write_text(json.dumps(programs))
    printed, _, errors = run([*how, RUNNER, str(file), *flags], folder, True)
    assert printed, errors[-4000:]
    return printed


def both_printed(programs, folder):
    """Return the outputs of the programs under `tf-lso run`, and of the migrated programs."""
    new = {name: migrated(p)[0] for name, p in programs.items()}
    command = ["-m", "tf_lso", "run"]
    old = printed_by(programs, folder, command, ["--unmodified"])
    return old, printed_by(new, folder)


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    return both_printed(CASES, tmp_path_factory.mktemp("cases"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=LIMITS.get(name, ())) for name in CASES]
)
def test_a_migrated_case_prints_what_it_printed_under_tf_lso_run(name, printed):
    before, after = (done[name] for done in printed)
    assert "Traceback" not in before, before
    assert before.strip(), "it prints nothing to compare"
    assert after == before


@pytest.mark.slow
def test_the_cases_need_their_migration(tmp_path):
    """Most programs fail without `tf-lso run` and migration, so the tests above test these."""
    done = printed_by(CASES, tmp_path)
    failed = [name for name, text in done.items() if "Traceback" in text]
    assert len(failed) > len(CASES) / 2
