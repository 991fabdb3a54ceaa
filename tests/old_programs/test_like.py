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
        printed, code, errors = run(
            command, tmp_path, after_tensorflow=True, TF_USE_LEGACY_KERAS=LEGACY_KERAS
        )
        assert code == 0, errors[-4000:]
        assert not differences(expected, printed, is_close=close), printed
