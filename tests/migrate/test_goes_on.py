"""A migrated program continues from a checkpoint that it wrote under TensorFlow 2.15.

`goes_on/program.py` wrote the checkpoint `goes_on/written_by_2_15` under TensorFlow 2.15.1
with its own Keras 2. `goes_on/expected.json` has the five steps before the checkpoint and
the five steps after it.
"""

import json
import pathlib
import shutil

import pytest

from tests.generation import HAS_KERAS3, HAS_TF_KERAS
from tests.old_programs.test_programs import marked_slow, run

HERE = pathlib.Path(__file__).parent / "goes_on"
EXPECTED = json.loads((HERE / "expected.json").read_text())

# Maps the name of a case to the command of `goes_on/program.py` that restores the checkpoint,
# and to the value of TF_USE_LEGACY_KERAS.
WAYS = {
    "the Keras of TensorFlow, restore": ("restore", "0"),
    # Keras 3 itself cannot read a checkpoint of Keras 2.
    **({"Keras 2, checkpoint": ("checkpoint", "0")} if not HAS_KERAS3 else {}),
    "tf_keras, checkpoint": ("checkpoint", "1"),
    "tf_keras, restore": ("restore", "1"),
}


def steps(folder, part, legacy):
    """Run the program with a command. Return its steps."""
    command = [str(HERE / "program.py"), str(folder), part]
    printed, code, errors = run(command, folder, True, TF_USE_LEGACY_KERAS=legacy)
    assert code == 0, errors[-4000:]
    return printed


def agree(part, got):
    """Assert that steps are the expected ones. Losses may differ by a factor of 1 +- 1e-5."""
    assert got == [
        {**step, "loss": pytest.approx(step["loss"], rel=1e-5)}
        for step in EXPECTED[part]
    ]


@pytest.mark.parametrize("way", marked_slow(WAYS, list(WAYS)[:2]))
def test_five_more_steps_are_those_of_2_15(way, tmp_path):
    part, legacy = WAYS[way]
    if legacy == "1" and not HAS_TF_KERAS:
        pytest.skip("tf_keras is not installed")
    folder = shutil.copytree(HERE / "written_by_2_15", tmp_path / "written")
    agree("go on", steps(folder, part, legacy))


@pytest.mark.slow
def test_the_first_five_steps_are_those_of_2_15(tmp_path):
    agree("save", steps(tmp_path, "train", "0"))


@pytest.mark.slow
def test_the_comparison_sees_a_program_that_begins_anew(tmp_path):
    begun = steps(tmp_path, "nothing", "0")
    with pytest.raises(AssertionError):
        agree("go on", begun)
