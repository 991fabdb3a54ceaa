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
# - "keras 3 warns": a part of a warning of Keras 3, if the program gives other numbers then.
# - "migrated": whether the migrated program prints the same on Keras 3.
EXPECTED = json.loads((PROGRAMS / "expected.json").read_text())
NAMES = sorted(EXPECTED)
MIGRATED = [name for name in NAMES if EXPECTED[name].get("migrated")]

# Programs with convolutions of float16. oneDNN computes them in float16 if the processor can,
# but TensorFlow 2.4.4 never did.
IN_FLOAT16 = ("unet_model",)
# Each process takes some seconds. So only the program that uses most of the API is not slow.
QUICK = ("bert_accumulation",)


def check(name, printed, code, errors):
    assert printed is not None, errors[-4000:]
    assert not differences(EXPECTED[name]["printed"], printed), printed


@pytest.mark.parametrize("name", marked_slow(NAMES, QUICK))
def test_like_2_4(name, tmp_path):
    command = ["-m", "tf_lso", "run", "--like", "2.4", str(PROGRAMS / f"{name}.py")]
    # Programs that are not in QUICK run faster in a process that has imported TensorFlow with
    # Keras 2. The program in QUICK tests that `--like` chooses the Keras itself.
    after_tensorflow, variables = name not in QUICK, {}
    if name in IN_FLOAT16:
        after_tensorflow, variables = False, {"TF_ENABLE_ONEDNN_OPTS": "0"}
    elif after_tensorflow:
        variables = {"TF_USE_LEGACY_KERAS": LEGACY_KERAS}
    check(name, *run(command, tmp_path, after_tensorflow, **variables))


_CALL_INT = ("electra_cond", "trainer_steps", "tts_positional", "wgan_gp")
LIMITS = {name: [NO_INT] for name in _CALL_INT}


@pytest.mark.keras3
@pytest.mark.parametrize("name", marked_slow(NAMES, QUICK, LIMITS))
def test_on_keras_3_it_runs_or_the_error_names_like(name, tmp_path):
    command = ["-m", "tf_lso", "run", str(PROGRAMS / f"{name}.py")]
    printed, code, errors = run(command, tmp_path, after_tensorflow=True)
    if "keras 3" in EXPECTED[name]:
        assert (printed, code) == (None, 1)
        assert EXPECTED[name]["keras 3"] in errors
        assert "tf-lso run --like 2.4" in errors.splitlines()[-1]
    elif "keras 3 warns" in EXPECTED[name]:
        assert EXPECTED[name]["keras 3 warns"] in errors
        assert differences(EXPECTED[name]["printed"], printed)
    else:
        check(name, printed, code, errors)


@pytest.mark.keras3
@pytest.mark.parametrize("name", marked_slow(MIGRATED, QUICK, LIMITS))
def test_migrated(name, tmp_path):
    path = shutil.copy(PROGRAMS / f"{name}.py", tmp_path)
    assert cli.main(["migrate", "--write", path]) == 0
    # All names of estimator_graph are those of tf.compat.v1, which work today.
    same = pathlib.Path(path).read_text() == (PROGRAMS / f"{name}.py").read_text()
    assert same == (name == "estimator_graph")
    check(name, *run([path], tmp_path, after_tensorflow=True))


def test_every_program_is_there():
    there = {path.stem for path in PROGRAMS.glob("*.py")}
    assert there == set(EXPECTED)
    assert len(there) == 10
