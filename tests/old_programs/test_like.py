"""Programs of 2020 under `--like`: what they print, and that a second start goes on.

`like/expected.json` has what each start printed under the real TensorFlow: "program
version" -> "tensorflow", the release that it was run on, and "printed", one result for
each start in the same folder.
"""

import json
import math
import pathlib

import pytest

from tests.generation import LEGACY_KERAS
from tests.old_programs.test_programs import differences, marked_slow, run

PROGRAMS = pathlib.Path(__file__).parent / "like"
EXPECTED = json.loads((PROGRAMS / "expected.json").read_text())

# A process takes some seconds, so the quick suite has one that is started twice, and those
# that show what only `--like` decides.
QUICK = ("loop_with_checkpoints 2.4", "mirrored_logs 2.8", "removed_names 2.4")


def close(expected, got):
    """Whether two numbers are equal but for sums in float16, which processors round."""
    return math.isclose(expected, got, rel_tol=1e-2, abs_tol=2e-3)


def check(name, start, printed, code, errors):
    assert code == 0, errors[-4000:]
    expected = EXPECTED[name]["printed"][start]
    assert not differences(expected, printed, is_close=close), printed


@pytest.mark.parametrize("name", marked_slow(EXPECTED, QUICK))
def test_each_start_prints_what_it_printed(name, tmp_path):
    program, like = name.split()
    command = ["-m", "tf_lso", "run", "--like", like, str(PROGRAMS / f"{program}.py")]
    # The first quick one begins without TensorFlow, and `--like` chooses its Keras.
    preloads = name != QUICK[0]
    variables = {"TF_USE_LEGACY_KERAS": LEGACY_KERAS} if preloads else {}
    for start in range(len(EXPECTED[name]["printed"])):
        check(name, start, *run(command, tmp_path, preloads, **variables))


def test_the_second_starts_go_on():
    """What the programs print of it differs from what a fresh start prints."""
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
