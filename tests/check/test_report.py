"""What the command prints, for people, for programs and for pull requests."""

import importlib.metadata
import importlib.util
import json
import os
import pathlib

import pytest

from tests import processes
from tests.processes import ROOT
from tests.source.programs import notebook, run, write

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
# The files that the recorded reports are about.
FILES = {
    "a.ipynb": notebook("x", PROGRAM),
    "a,b:c%\n.py": PROGRAM,  # what would end a workflow command is escaped
    "broken.ipynb": notebook("x", "loss_scale("),
    "broken.py": "x\nloss_scale(\n",
    "computed.py": "import tensorflow as tf\ngetattr(tf.keras.mixed_precision, name)\n",
    "program.py": PROGRAM,
    "silent.py": SILENT,
    "star.py": "from keras.mixed_precision import *\n",
    "tf_keras.py": "import tf_keras\ntf_keras.mixed_precision.LossScaleOptimizer(o)\n",
}
RECORDED = ROOT / "tests/check/reports"


@pytest.fixture(autouse=True)
def program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write("program.py", PROGRAM)


def check(*arguments):
    return run("check", "--target", "2.21", *arguments)


@pytest.mark.parametrize("report", sorted(path.name for path in RECORDED.iterdir()))
def test_a_report_is_as_recorded(report):
    """Each is what `tf-lso COMMAND --format FORM . missing.py` prints of the files."""
    for name, text in FILES.items():
        write(name, text)
    command, form = report.split(".")
    target = ["--target", "2.21"] if command == "check" else []
    code, printed = run(command, *target, "--format", form, ".", "missing.py")
    assert code == 2
    assert printed == (RECORDED / report).read_text(encoding="utf-8")
    assert {name: pathlib.Path(name).read_text() for name in FILES} == FILES


def test_text_where_nothing_is_found(program):
    program.write_text("")
    assert check(".") == (
        0,
        "1 file read, for TensorFlow 2.21: no use of the legacy loss-scaling API "
        "found.\n",
    )


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
    """Also of a name that may be two modules, which are kept in sets."""
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
        "import sys; from tf_lso.commands import check, migrate;"
        "check.check([]); migrate.migrate([]);"
        "print([m for m in ('tensorflow', 'keras', 'numpy') if m in sys.modules])"
    )
    assert processes.run(command) == ["[]"]


@pytest.mark.parametrize("target", ["2.15", "2.15.1", "2.15.0rc1"])
def test_the_reports_name_the_target(target):
    write("program.py", "from keras.mixed_precision import Policy\n" + PROGRAM)
    said = {
        form: run("check", "--target", target, "--format", form, "program.py")[1]
        for form in ("text", "json", "github")
    }
    assert "    2.15:   ImportError: TensorFlow 2.15 has no" in said["text"]
    uses = "4 legacy uses, 3 would break, 1 works."
    assert f"for TensorFlow 2.15: {uses}" in said["text"]
    assert json.loads(said["json"])["target"] == "2.15"
    assert "breaks on TensorFlow 2.15" in said["github"]


@pytest.mark.parametrize(
    ("package", "version", "target"),
    [
        ("tensorflow", "2.15.1", "2.15"),
        ("tensorflow-cpu", "2.18.0", "2.18"),
        ("tensorflow-of-a-vendor", "2.12.0+v1", "2.12"),
        ("tensorflow", "2.8.4", "2.21"),
        ("tensorflow", "2.99.0", "2.21"),
        (None, None, "2.21"),
    ],
)
def test_the_default_target_is_the_installed_one(package, version, target, monkeypatch):
    def version_of(name):
        if name != package:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    owners = {"tensorflow": [package]} if package else {}
    metadata = importlib.metadata
    monkeypatch.setattr(metadata, "version", version_of)
    monkeypatch.setattr(metadata, "packages_distributions", lambda: owners)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: package)
    printed = run("check", "--format", "json", "program.py")[1]
    assert json.loads(printed)["target"] == target
