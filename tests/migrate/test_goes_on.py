"""What a migrated program wrote on TensorFlow 2.15 goes on in the same program here.

`goes_on/written_by_2_15` is a checkpoint of `goes_on/program.py`, and `expected.json` has
the steps before it and the five after it, all by TensorFlow 2.15.1 with its own Keras 2.
"""

import json
import pathlib
import shutil

import pytest

from tests.generation import HAS_KERAS3, HAS_TF_KERAS
from tests.old_programs.test_programs import marked_slow, run

HERE = pathlib.Path(__file__).parent / "goes_on"
EXPECTED = json.loads((HERE / "expected.json").read_text())

# way to restore, TF_USE_LEGACY_KERAS
WAYS = {
    "the Keras of TensorFlow, restore": ("restore", "0"),
    # Keras 3 reads no checkpoint of Keras 2 by itself.
    **({"Keras 2, checkpoint": ("checkpoint", "0")} if not HAS_KERAS3 else {}),
    "tf_keras, checkpoint": ("checkpoint", "1"),
    "tf_keras, restore": ("restore", "1"),
}


def steps(folder, part, legacy):
    """Runs the program; returns its steps."""
    command = [str(HERE / "program.py"), str(folder), part]
    printed, code, errors = run(command, folder, True, TF_USE_LEGACY_KERAS=legacy)
    assert code == 0, errors[-4000:]
    return printed


def agree(part, got):
    """Holds the state to be equal and the losses to be equal but for 1e-5."""
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
