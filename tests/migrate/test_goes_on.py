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

FOLDER = pathlib.Path(__file__).parent / "goes_on"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())

# Maps the name of a case to the command of `goes_on/program.py` that restores the checkpoint,
# and to the value of TF_USE_LEGACY_KERAS.
WAYS = {
    "the Keras of TensorFlow, restore": ("restore", "0"),
    # Keras 3 itself cannot read a checkpoint of Keras 2.
    **({"Keras 2, checkpoint": ("checkpoint", "0")} if not HAS_KERAS3 else {}),
    "tf_keras, checkpoint": ("checkpoint", "1"),
    "tf_keras, restore": ("restore", "1"),
}
QUICK = ("the Keras of TensorFlow, restore",)  # the others are slow


def steps_of(command, folder, legacy_keras):
    """Run the program with a command. Return the steps that it prints."""
    printed, code, errors = run(
        [str(FOLDER / "program.py"), str(folder), command],
        folder,
        after_tensorflow=True,
        TF_USE_LEGACY_KERAS=legacy_keras,
    )
    assert code == 0, errors[-4000:]
    return printed


def assert_expected(steps, part):
    """Assert that steps are those of a part of expected.json. Only losses may be rounded."""
    assert steps == [
        {**step, "loss": pytest.approx(step["loss"], rel=1e-5)}
        for step in EXPECTED[part]
    ]


@pytest.mark.parametrize("way", marked_slow(WAYS, QUICK))
def test_the_steps_after_the_checkpoint_are_those_of_2_15(way, tmp_path):
    command, legacy_keras = WAYS[way]
    if legacy_keras == "1" and not HAS_TF_KERAS:
        pytest.skip("tf_keras is not installed")
    folder = shutil.copytree(FOLDER / "written_by_2_15", tmp_path / "written")
    assert_expected(steps_of(command, folder, legacy_keras), "go on")


@pytest.mark.slow
def test_the_steps_before_the_checkpoint_are_those_of_2_15(tmp_path):
    assert_expected(steps_of("train", tmp_path, "0"), "save")


@pytest.mark.slow
def test_the_comparison_fails_for_a_program_that_does_not_restore(tmp_path):
    steps = steps_of("nothing", tmp_path, "0")
    with pytest.raises(AssertionError):
        assert_expected(steps, "go on")
