"""Training programs in the style of public code bases print what they printed in their time.

`code_bases/expected.json` has what each program printed under the real TensorFlow 2.4.4. For
programs that Keras 3 cannot run, it has a part of the error.
"""

import json
import pathlib
import shutil

import pytest

from tests.generation import LEGACY_KERAS, NO_INT
from tests.old_programs.test_programs import differences, marked_slow, run
from tf_lso import cli

PROGRAMS = pathlib.Path(__file__).parent / "code_bases"

# Maps each program to a dict with these keys:
# - "tensorflow": the version of TensorFlow that ran the program.
# - "printed": what the program printed then.
# - "keras 3": a part of the error that ends the program on Keras 3 without `--like`, if any.
# - "migrated": whether the migrated program prints the same on Keras 3.
EXPECTED = json.loads((PROGRAMS / "expected.json").read_text())
NAMES = sorted(EXPECTED)
MIGRATED = [name for name in NAMES if EXPECTED[name].get("migrated")]

# Programs with convolutions of float16. oneDNN computes them in float16 if the processor can,
# but TensorFlow 2.4.4 never did.
WITH_CONVOLUTIONS = ("unet_model",)


def path_of(name):
    return str(PROGRAMS / f"{name}.py")


def check(name, printed, code, errors):
    """Assert that a program printed what `EXPECTED` says."""
    assert printed is not None, errors[-4000:]
    assert not differences(EXPECTED[name]["printed"], printed), printed


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_like_2_4(name, tmp_path):
    command = ["-m", "tf_lso", "run", "--like", "2.4", path_of(name)]
    if name in WITH_CONVOLUTIONS:
        # TensorFlow reads this variable when it is imported.
        result = run(command, tmp_path, TF_ENABLE_ONEDNN_OPTS="0")
    elif name == "bert_accumulation":
        # This program tests that `--like` chooses the Keras itself.
        result = run(command, tmp_path)
    else:
        # The others run faster in a process that has imported TensorFlow with Keras 2.
        result = run(
            command,
            tmp_path,
            after_tensorflow=True,
            TF_USE_LEGACY_KERAS=LEGACY_KERAS,
        )
    check(name, *result)


# Programs that call `int()` of a variable.
LIMITS = {
    "electra_cond": [NO_INT],
    "tts_positional": [NO_INT],
    "wgan_gp": [NO_INT],
}


@pytest.mark.keras3
@pytest.mark.parametrize("name", marked_slow(NAMES, (), LIMITS))
def test_on_keras_3_it_runs_or_the_error_names_like(name, tmp_path):
    command = ["-m", "tf_lso", "run", path_of(name)]
    printed, code, errors = run(command, tmp_path, after_tensorflow=True)
    if "keras 3" in EXPECTED[name]:
        assert (printed, code) == (None, 1)
        assert EXPECTED[name]["keras 3"] in errors
        assert "tf-lso run --like 2.4" in errors.splitlines()[-1]
    else:
        check(name, printed, code, errors)


@pytest.mark.keras3
@pytest.mark.parametrize("name", marked_slow(MIGRATED, (), LIMITS))
def test_a_migrated_program_prints_what_it_printed(name, tmp_path):
    path = shutil.copy(path_of(name), tmp_path)
    assert cli.main(["migrate", "--write", path]) == 0
    is_unchanged = (
        pathlib.Path(path).read_bytes() == pathlib.Path(path_of(name)).read_bytes()
    )
    # All old names in estimator_graph are in tf.compat.v1, and still work.
    assert is_unchanged == (name == "estimator_graph")
    check(name, *run([path], tmp_path, after_tensorflow=True))
