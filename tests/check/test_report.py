"""What `check` and `migrate` print: as text and as JSON."""

import io
import json
import os
import pathlib
import subprocess
import sys

import pytest

from tests import processes
from tests.migrate.programs import notebook, run, write
from tests.processes import ROOT

PROGRAM = """\
from tensorflow.keras.mixed_precision import experimental as mp
mp.set_policy("mixed_float16")
mp.set_policy("mixed_float16")
"""
# A program that trains without scaling the loss on Keras 3.
TRAINS_WRONG = """\
import tensorflow as tf
if hasattr(opt, "get_scaled_loss"):
    loss = opt.get_scaled_loss(loss)
tf.mixed_precision.experimental.DynamicLossScale()
tf.keras.mixed_precision.global_policy()
"""
# The files in the recorded reports.
FILES = {
    "a.ipynb": notebook("x", PROGRAM),
    "broken.ipynb": notebook("x", "loss_scale("),
    "broken.py": "x\nloss_scale(\n",
    "computed.py": "import tensorflow as tf\ngetattr(tf.keras.mixed_precision, name)\n",
    "program.py": PROGRAM,
    "silent.py": TRAINS_WRONG,
    "star.py": "from keras.mixed_precision import *\n",
    "tf_keras.py": "import tf_keras\ntf_keras.mixed_precision.LossScaleOptimizer(o)\n",
}
REPORTS = ROOT / "tests/check/reports"
# Maps a command and a format to the file that records what the command
# `tf-lso COMMAND --verbose . missing.py` prints in this format.
RECORDED = {
    ("check", "text"): "check.text",
    ("check", "json"): "check.json",
    ("migrate", "text"): "migrate.text",
}


@pytest.fixture(autouse=True)
def program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write("program.py", PROGRAM)


@pytest.mark.parametrize(("command", "report_format"), RECORDED)
def test_a_report_is_as_recorded(command, report_format):
    for file, text in FILES.items():
        write(file, text)
    flags = ["--format", report_format] if command == "check" else []
    code, printed = run(command, "--verbose", *flags, ".", "missing.py")
    assert code == 2
    recorded = REPORTS / RECORDED[command, report_format]
    assert printed == recorded.read_text(encoding="utf-8")
    for file, text in FILES.items():
        assert pathlib.Path(file).read_text() == text


def test_the_report_of_a_program_without_findings(program):
    program.write_text("")
    code, printed = run("check", ".")
    assert code == 0
    first = "1 file read: no use of the legacy loss-scaling API found.\n"
    assert printed.startswith(f"{first}Only loss scaling was checked. ")


@pytest.mark.parametrize("command", ["check", "migrate"])
def test_with_like_the_last_line_names_that_version(command):
    _, printed = run(command, "--like", "2.4", "program.py")
    assert printed.endswith(
        'tf-lso run --like 2.4 SCRIPT, or tf_lso.install(like="2.4") in a notebook; '
        "`import keras` is then the Keras of tf.keras\n"
    )


# A program with an old name that still works.
WORKS = "import tensorflow as tf\nprint(tf.keras.mixed_precision.global_policy())\n"


@pytest.mark.parametrize("report_format", ["text", "json"])
def test_only_verbose_shows_names_that_work(program, report_format):
    program.write_text(WORKS)
    command = ["check", "--format", report_format, "program.py"]
    assert "LSO103" not in run(*command)[1]
    assert "LSO103" in run(*command, "--verbose")[1]
    assert "--verbose shows what works" in run("check", "program.py")[1]


def test_the_standard_input_is_checked(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(PROGRAM.encode()))
    monkeypatch.setattr(sys, "stdin", stream)
    code, printed = run("check", "-")
    assert code == 1
    assert printed.startswith("-:1:46: LSO101 breaks  tf.keras.mixed_p")


def test_the_standard_input_is_migrated():
    done = subprocess.run(
        [sys.executable, "-m", "tf_lso", "migrate", "--write", "-"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        input=PROGRAM,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert done.stdout == PROGRAM.replace("from tensorflow", "from tf_lso")
    assert "1 file read: 1 changed, in 1 place." in done.stderr


def test_diff_prints_only_the_diff():
    code, printed = run("migrate", "--diff", "program.py")
    assert code == 1
    assert printed.startswith("--- a/program.py\n+++ b/program.py\n@@")
    assert "file read" not in printed
    assert run("migrate", "--diff", write("b.py", WORKS)) == (0, "")


@pytest.mark.parametrize("command", ["check", "migrate"])
def test_without_libcst_one_line_says_what_to_install(command):
    program = processes.hiding("libcst")
    program += (
        f"from tf_lso import cli; sys.exit(cli.main(['{command}', 'program.py']))"
    )
    done = processes.start(["-c", program])
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"tf-lso {command} needs LibCST")
    assert "pip install 'tf-lso[migrate]'" in line


@pytest.mark.parametrize(
    ("inner", "status", "code"),
    [("tf.keras.optimizers.SGD(0.5)", "breaks", 1), ("made_elsewhere()", "unsure", 0)],
)
def test_decayed_lr_of_another_optimizer_is_left(program, inner, status, code):
    program.write_text(
        "import tensorflow as tf\nimport tf_lso\n"
        f"inner = {inner}\n"
        "opt = tf_lso.keras.mixed_precision.LossScaleOptimizer(inner)\n"
        "print(inner._decayed_lr(tf.float32))\n"
    )
    found, printed = run("check", "program.py")
    assert found == code
    assert (
        f"program.py:5:13: LSO105 {status}  LossScaleOptimizer._decayed_lr" in printed
    )
    assert "program.py:5:13: LSO105 left" in run("migrate", "program.py")[1]


@pytest.mark.parametrize("report_format", ["text", "json"])
def test_file_names_that_the_output_cannot_encode_are_escaped(program, report_format):
    program.unlink()
    names = {b'\xff\n".py', "é✓.py".encode()}
    for name in names:
        with open(name, "w") as file:
            file.write(PROGRAM)
    command = ["-m", "tf_lso", "check", "--format", report_format, "."]
    done = processes.start(command, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (1, "")
    if report_format == "json":
        files = {finding["file"] for finding in json.loads(done.stdout)["findings"]}
        assert {os.path.basename(os.fsencode(file)) for file in files} == names


@pytest.mark.slow
def test_the_report_does_not_depend_on_the_order_of_sets(program):
    """The name `keras` may be one of two modules, which the command keeps in a set."""
    program.write_text(
        "import keras\nfrom tensorflow import keras\n"
        "keras.mixed_precision.experimental.Policy('mixed_float16')\n"
    )
    command = ["-m", "tf_lso", "check", "program.py"]
    reports = {processes.start(command, PYTHONHASHSEED=seed).stdout for seed in "1234"}
    assert len(reports) == 1


def test_the_commands_import_no_large_package():
    program = """
        import sys
        from tf_lso.migrate import output, reading_files, writing

        reading_files.check([])
        writing.migrate([])
        print({"tensorflow", "keras", "numpy"} & sys.modules.keys())
    """
    assert processes.run(program) == ["set()"]
