"""Under `--like`, programs of 2020 print what they printed in their time.

Some programs save checkpoints. They are started twice, and the second start must continue from
the checkpoint of the first.

`like/expected.json` maps each program with a version of `--like` to a dict: "tensorflow" is the
release that ran the program, and "printed" is a list of what each start printed.
"""

import json
import math
import pathlib

import pytest

from tests.generation import LEGACY_KERAS
from tests.old_programs.test_programs import differences, marked_slow, run

PROGRAMS = pathlib.Path(__file__).parent / "like"
EXPECTED = json.loads((PROGRAMS / "expected.json").read_text())

# Each process takes some seconds. So only these programs are not slow: one that is started
# twice, and those that test what only `--like` changes.
QUICK = ("loop_with_checkpoints 2.4", "mirrored_logs 2.8", "removed_names 2.4")


def close(expected, got):
    """Return whether two numbers are equal, except for the rounding of sums in float16."""
    return math.isclose(expected, got, rel_tol=1e-2, abs_tol=2e-3)


def check(name, start, printed, code, errors):
    assert code == 0, errors[-4000:]
    expected = EXPECTED[name]["printed"][start]
    assert not differences(expected, printed, is_close=close), printed


@pytest.mark.parametrize("name", marked_slow(EXPECTED, QUICK))
def test_each_start_prints_what_it_printed(name, tmp_path):
    program, like = name.split()
    command = ["-m", "tf_lso", "run", "--like", like, str(PROGRAMS / f"{program}.py")]
    # The first program in QUICK tests that `--like` chooses the Keras itself. The others run
    # faster in a process that has imported TensorFlow with Keras 2.
    preloads = name != QUICK[0]
    variables = {"TF_USE_LEGACY_KERAS": LEGACY_KERAS} if preloads else {}
    for start in range(len(EXPECTED[name]["printed"])):
        check(name, start, *run(command, tmp_path, preloads, **variables))


def test_the_second_starts_go_on():
    """The recorded results of the second start differ from those of a new program."""
    twice = {n: e["printed"] for n, e in EXPECTED.items() if len(e["printed"]) == 2}
    assert len(twice) == 3
    for first, second in twice.values():
        begun = [key for key in first if key.startswith("first_")]
        assert begun
        assert all(first[key] == 0 and second[key] > 0 for key in begun)
        losses = [r.get("history", r)["loss"] for r in (first, second)]
        assert differences(*losses, is_close=close)


def test_every_program_is_run():
    there = {path.stem for path in PROGRAMS.glob("*.py")}
    assert there == {name.split()[0] for name in EXPECTED}
