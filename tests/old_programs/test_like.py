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
from tests.old_programs.test_programs import differences, run

PROGRAMS = pathlib.Path(__file__).parent / "like"
EXPECTED = json.loads((PROGRAMS / "expected.json").read_text())


def close(expected, got):
    """Return whether two numbers are equal, except for the rounding of sums in float16."""
    return math.isclose(expected, got, rel_tol=1e-2, abs_tol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_each_start_prints_what_it_printed(name, tmp_path):
    program, like = name.split()
    command = ["-m", "tf_lso", "run", "--like", like, str(PROGRAMS / f"{program}.py")]
    for expected in EXPECTED[name]["printed"]:
        if name == "loop_with_checkpoints 2.4":
            # This program tests that `--like` chooses the Keras itself.
            printed, code, errors = run(command, tmp_path)
        else:
            # The others run faster in a process that has imported TensorFlow with Keras 2.
            printed, code, errors = run(
                command,
                tmp_path,
                after_tensorflow=True,
                TF_USE_LEGACY_KERAS=LEGACY_KERAS,
            )
        assert code == 0, errors[-4000:]
        assert not differences(expected, printed, is_close=close), printed


def test_each_recorded_second_start_continues_from_a_checkpoint():
    """The recorded results of the second start differ from those of a new program."""
    started_twice = [
        case["printed"] for case in EXPECTED.values() if len(case["printed"]) == 2
    ]
    assert len(started_twice) == 3
    for first, second in started_twice:
        # Counters at the beginning of a start, such as "first_step".
        keys = [key for key in first if key.startswith("first_")]
        assert keys
        for key in keys:
            assert first[key] == 0
            assert second[key] > 0
        first_losses = first.get("history", first)["loss"]
        second_losses = second.get("history", second)["loss"]
        assert differences(first_losses, second_losses, is_close=close)


def test_every_program_is_run():
    programs = {path.stem for path in PROGRAMS.glob("*.py")}
    assert programs == {name.split()[0] for name in EXPECTED}
