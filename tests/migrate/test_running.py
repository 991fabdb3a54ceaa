"""Rewritten programs print what they printed before, under `tf-lso run`."""

import json

import pytest

from tests.generation import NO_CHECKPOINT, NO_WRAPPED_H5, limit
from tests.migrate.programs import migrated
from tests.migrate.rules import (
    test_lso101,
    test_lso102,
    test_lso104,
    test_lso105,
    test_lso106,
    test_lso111,
)
from tests.old_programs.test_programs import run
from tests.processes import ROOT

# Maps the ids of the programs that print something to the programs.
PROGRAMS = {
    parameters.id: parameters.values[0]
    for parameters in (
        *test_lso101.REWRITTEN,
        *test_lso102.REWRITTEN,
        *test_lso104.REWRITTEN,
        *test_lso105.REWRITTEN,
        *test_lso105.REWRITTEN_IN_PART,
        *test_lso106.REWRITTEN,
        *test_lso111.REWRITTEN,
    )
    if "print(" in parameters.values[0]
}
RUNNER = str(ROOT / "tests/migrate/run_cases.py")
# Programs that some version of Keras itself cannot run.
LIMITS = {
    "compat v1 as tf": limit("this TensorFlow has no `compat.v1.compat.v2`", "2.12"),
    "a guard that trains wrong, silently": limit(
        "this Keras has no `keras.config`", "2.12", "2.15"
    ),
    "custom objects": NO_WRAPPED_H5,
    "files of older versions that are read": NO_CHECKPOINT,
    "private modules of keras": limit(
        "this Keras has no `PolicyV1` in `keras.src`", "2.12", "2.15"
    ),
}


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


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """The outputs of the programs under `tf-lso run`, and of the migrated programs."""
    folder = tmp_path_factory.mktemp("programs")
    before = printed_by(PROGRAMS, folder, ["-m", "tf_lso", "run"], ["--unmodified"])
    new = {name: migrated(program)[0] for name, program in PROGRAMS.items()}
    return before, printed_by(new, folder)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=LIMITS.get(name, ())) for name in PROGRAMS]
)
def test_a_migrated_program_prints_what_it_printed_under_tf_lso_run(name, printed):
    before, after = printed
    assert "Traceback" not in before[name], before[name]
    assert before[name].strip(), "The program prints nothing to compare."
    assert after[name] == before[name]
