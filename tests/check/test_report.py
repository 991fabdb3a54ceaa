"""What `check` and `migrate` print: as text, as JSON, and for pull requests on GitHub."""

import io
import json
import os
import pathlib
import subprocess
import sys
from unittest import mock

import pytest

from tests import processes
from tests.migrate.programs import notebook, run, write
from tests.processes import ROOT
from tf_lso.migrate import report

pytestmark = pytest.mark.core

PROGRAM = """\
from tensorflow.keras.mixed_precision import experimental as mp
mp.set_policy("mixed_float16")
mp.set_policy("mixed_float16")
"""
SILENT = """\
import tensorflow as tf
if hasattr(opt, "get_scaled_loss"):
    loss = opt.get_scaled_loss(loss)
tf.mixed_precision.experimental.DynamicLossScale()
tf.keras.mixed_precision.global_policy()
"""
# The files in the recorded reports.
FILES = {
    "a.ipynb": notebook("x", PROGRAM),
    # GitHub's workflow commands must escape these characters.
    "a,b:c%\n.py": PROGRAM,
    "broken.ipynb": notebook("x", "loss_scale("),
    "broken.py": "x\nloss_scale(\n",
    "computed.py": "import tensorflow as tf\ngetattr(tf.keras.mixed_precision, name)\n",
    "program.py": PROGRAM,
    "silent.py": SILENT,
    "star.py": "from keras.mixed_precision import *\n",
    "tf_keras.py": "import tf_keras\ntf_keras.mixed_precision.LossScaleOptimizer(o)\n",
}
RECORDED = ROOT / "tests/check/reports"
# Maps a command and a format to the file that records what the command
# `tf-lso COMMAND --verbose . missing.py` prints in this format.
REPORTS = {
    ("check", "text"): "check.text",
    ("check", "github"): "check.github",
    ("check", "json"): "check.json",
    ("migrate", "text"): "migrate.text",
}


@pytest.fixture(autouse=True)
def program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write("program.py", PROGRAM)


@pytest.mark.parametrize(("command", "form"), REPORTS)
def test_a_report_is_as_recorded(command, form):
    for file, text in FILES.items():
        write(file, text)
    flags = ["--format", form] if command == "check" else []
    code, printed = run(command, "--verbose", *flags, ".", "missing.py")
    assert code == 2
    recorded = RECORDED / REPORTS[command, form]
    assert printed == recorded.read_text(encoding="utf-8")
    assert {file: pathlib.Path(file).read_text() for file in FILES} == FILES


CLOSING = "Only loss scaling was checked. For other changes of Keras 3: "


def test_text_where_nothing_is_found(program):
    program.write_text("")
    assert run("check", ".") == (
        0,
        "1 file read: no use of the legacy loss-scaling API found.\n"
        f"{CLOSING}tf-lso run --like VERSION ./program.py\n",
    )


@pytest.mark.parametrize("command", ["check", "migrate"])
@pytest.mark.parametrize(
    ("files", "flags", "closing"),
    [
        (["a.py"], [], "tf-lso run --like VERSION a.py"),
        (["a.py"], ["--like", "2.4"], "tf-lso run --like 2.4 a.py"),
        (["a.py", "b.py"], [], "tf-lso run --like VERSION SCRIPT"),
        (
            ["a.ipynb"],
            ["--like", "2.4"],
            '`import tf_lso; tf_lso.install(like="2.4")` in the first cell of the notebook',
        ),
    ],
)
def test_the_last_line_says_what_was_not_looked_at(command, files, flags, closing):
    for name in files:
        write(name, notebook(PROGRAM) if name.endswith(".ipynb") else PROGRAM)
    printed = run(command, *flags, *files)[1]
    assert printed.splitlines()[-1] == CLOSING + closing


WORKS = "import tensorflow as tf\nprint(tf.keras.mixed_precision.global_policy())\n"


@pytest.mark.parametrize("form", ["text", "json", "github"])
def test_what_works_is_printed_with_verbose_alone(program, form):
    program.write_text(WORKS)
    command = ["check", "--format", form, "program.py"]
    assert "LSO103" not in run(*command)[1]
    assert "LSO103" in run(*command, "--verbose")[1]
    assert "--verbose shows what works" in run("check", "program.py")[1]


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_colours_on_a_terminal(monkeypatch, variables, coloured):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert "\033[" not in run("check", "program.py")[1]  # no terminal
    terminal = mock.Mock(isatty=lambda: True)
    monkeypatch.setattr(report, "sys", mock.Mock(stdout=terminal))
    for command in ("check", "migrate"):
        assert ("\033[31m" in run(command, "program.py")[1]) == coloured


@pytest.fixture
def piped(monkeypatch):
    """Make the standard input contain a program."""
    stream = io.TextIOWrapper(io.BytesIO(PROGRAM.encode()))
    monkeypatch.setattr(sys, "stdin", stream)


def test_the_standard_input_is_checked(piped):
    code, printed = run("check", "-")
    assert code == 1 and printed.startswith("-:1:46: LSO101 breaks  tf.keras.mixed_p")


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


def test_diff_prints_the_diff_alone():
    code, printed = run("migrate", "--diff", "program.py")
    assert code == 1
    assert printed.startswith("--- a/program.py\n+++ b/program.py\n@@")
    assert "file read" not in printed
    assert run("migrate", "--diff", write("b.py", WORKS)) == (0, "")


@pytest.mark.parametrize("command", ["check", "migrate"])
def test_without_libcst_one_line_names_what_to_install(command):
    main = f"from tf_lso import cli; sys.exit(cli.main(['{command}', 'program.py']))"
    done = processes.start(["-c", processes.hiding("libcst") + main])
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"tf-lso {command} needs LibCST")
    assert "pip install 'tf-lso[migrate]'" in line


def test_decayed_lr_of_an_optimizer_that_is_not_wrapped_is_listed():
    program = (
        "import tensorflow as tf\nimport tf_lso\n"
        "inner = tf.keras.optimizers.SGD(0.5)\n"
        "opt = tf_lso.keras.mixed_precision.LossScaleOptimizer(inner)\n"
        "print(inner._decayed_lr(tf.float32))\n"
    )
    write("program.py", program)
    code, printed = run("check", "program.py")
    assert code == 0
    assert "program.py:5:13: LSO105 unsure  LossScaleOptimizer._decayed_lr" in printed
    assert "program.py:5:13: LSO105 left" in run("migrate", "program.py")[1]


@pytest.mark.parametrize("form", ["text", "json"])
def test_odd_file_names(program, form):
    program.unlink()
    names = {b'\xff\n".py', "é✓.py".encode()}
    for name in names:
        with open(name, "w") as file:
            file.write(PROGRAM)
    command = ["-m", "tf_lso", "check", "--format", form, "."]
    done = processes.start(command, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (1, "")
    if form == "json":
        found = {one["file"] for one in json.loads(done.stdout)["findings"]}
        assert {os.path.basename(os.fsencode(name)) for name in found} == names


def test_is_the_same_in_every_run():
    """The name `keras` may be one of two modules, which the command keeps in a set."""
    write(
        "program.py",
        "import keras\nfrom tensorflow import keras\n"
        "keras.mixed_precision.experimental.Policy('mixed_float16')\n",
    )
    command = ["-m", "tf_lso", "check", "program.py"]
    reports = {processes.start(command, PYTHONHASHSEED=seed).stdout for seed in "1234"}
    assert len(reports) == 1


def test_imports_nothing_heavy():
    command = (
        "import sys; from tf_lso.migrate import files, machine, report, writing;"
        "files.check([]); writing.migrate([]);"
        "print([m for m in ('tensorflow', 'keras', 'numpy') if m in sys.modules])"
    )
    assert processes.run(command) == ["[]"]
