"""Training steps in the shape of public code bases, as they are, and migrated.

`code_bases/expected.json` has what each printed under the real TensorFlow 2.4.4, and for
those that Keras 3 cannot run, what its error says.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from tests.old_programs import test_programs
from tests.processes import HANGS_AFTER, LEAN, QUIET

PROGRAMS = pathlib.Path(__file__).parent / "code_bases"

# Program -> "tensorflow", the version that it was run on; "printed" then; "keras 3", the
# error that ends it without `--like` on Keras 3, where there is one; "migrated", whether
# the migrated program gives the same on Keras 3.
EXPECTED = json.loads((PROGRAMS / "expected.json").read_text())
NAMES = sorted(EXPECTED)
ON_KERAS_3 = [name for name in NAMES if "keras 3" not in EXPECTED[name]]

# A process takes some seconds, so the quick suite has the one that uses most.
QUICK = ("bert_accumulation",)


def parameters(names):
    return [
        pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow])
        for name in names
    ]


def run(arguments, cwd):
    """Run Python; return what the program printed as RESULT, or None, and its errors."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": LEAN, **QUIET, "TF_USE_LEGACY_KERAS": "0"},
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    printed = json.loads(lines[-1].removeprefix("RESULT ")) if lines else None
    return printed, done.stderr


def check(name, printed, errors):
    assert printed is not None, errors[-4000:]
    assert not test_programs.differences(EXPECTED[name]["printed"], printed), printed


@pytest.mark.parametrize("name", parameters(NAMES))
def test_like_2_4(name, tmp_path):
    command = ["-m", "tf_lso", "run", "--like", "2.4", str(PROGRAMS / f"{name}.py")]
    check(name, *run(command, tmp_path))


@pytest.mark.keras3
@pytest.mark.parametrize("name", parameters(NAMES))
def test_on_keras_3_it_runs_or_the_error_names_like(name, tmp_path):
    command = ["-m", "tf_lso", "run", str(PROGRAMS / f"{name}.py")]
    printed, errors = run(command, tmp_path)
    if name in ON_KERAS_3:
        check(name, printed, errors)
    else:
        assert printed is None
        assert EXPECTED[name]["keras 3"] in errors
        assert "tf-lso run --like 2.4" in errors.splitlines()[-1]


@pytest.mark.keras3
@pytest.mark.parametrize(
    "name", parameters([name for name in NAMES if EXPECTED[name].get("migrated")])
)
def test_migrated(name, tmp_path):
    path = shutil.copy(PROGRAMS / f"{name}.py", tmp_path)
    _, errors = run(["-m", "tf_lso", "migrate", "--write", path], tmp_path)
    assert pathlib.Path(path).read_text() != (PROGRAMS / f"{name}.py").read_text(), (
        errors
    )
    check(name, *run([path], tmp_path))


def test_every_program_is_there():
    there = {path.stem for path in PROGRAMS.glob("*.py")} - {"conftest"}
    assert there == set(EXPECTED)
    assert len(there) == 10
