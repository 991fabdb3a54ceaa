"""What the command prints, for people, for programs and for pull requests."""

import importlib.metadata
import importlib.util
import json
import os
import re

import pytest

from tests import processes
from tests.source.programs import checked, notebook, run, write
from tf_lso.names.targets import TARGETS

pytestmark = pytest.mark.core

NAME = "tf.keras.mixed_precision.experimental"
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
KEYS = {
    *("file", "cell", "line", "column", "kind", "name", "code", "status", "guarded"),
    *("today", "tf_lso", "current", "replacement", "rule", "fix", "why_not"),
}


@pytest.fixture(autouse=True)
def program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write("program.py", PROGRAM)


def check(*arguments):
    return run("check", "--target", "2.21", *arguments)


def test_text():
    code, text = check("program.py")
    assert code == 1
    lines = text.splitlines()
    assert lines[0] == f"program.py:1:46: LSO101 breaks  {NAME}"
    assert lines[1] == f"    {PROGRAM.splitlines()[0]}"
    assert lines[2].startswith("    today:  ImportError: ")
    assert f"program.py:2:1: LSO101 breaks  {NAME}.set_policy" in lines
    assert f"    tf_lso: tf_lso.{NAME.removeprefix('tf.')}.set_policy:" in text
    assert "    now:    tf.keras.config.set_dtype_policy" in lines
    again = lines.index(f"program.py:3:1: LSO101 breaks  {NAME}.set_policy")
    assert lines[again + 2] == "    as in line 2"
    assert "1 file read, for TensorFlow 2.21: 3 legacy uses, 3 would break." in lines
    assert "tf-lso run SCRIPT" in lines[-1] and "tf_lso.install()" in lines[-1]
    assert "\033" not in text


def test_text_of_what_trains_wrong():
    write("program.py", SILENT)
    code, said = check("program.py")
    assert code == 1
    assert "trains wrong, silently  LossScaleOptimizer.get_scaled_loss" in said
    assert "LSO105 breaks (guarded)  LossScaleOptimizer.get_scaled_loss" in said
    uses = "4 legacy uses, 1 would train wrong, silently, 1 would break"
    assert f"{uses}, 1 guarded, 1 works." in said
    assert "tf-lso run" in said.splitlines()[-1]


def test_text_where_nothing_is_found(program):
    program.write_text("")
    assert check(".") == (
        0,
        "1 file read, for TensorFlow 2.21: no use of the legacy loss-scaling API "
        "found.\n",
    )


def test_text_of_the_unreadable():
    write("program.py", "x\nprint loss_scale\n")
    _, text = check("program.py", "missing")
    assert "program.py:2: unreadable  does not parse" in text
    assert "missing: unreadable  No such file or directory" in text
    assert text.splitlines()[-1].endswith("; 2 unreadable.")


def test_text_names_the_cell():
    write("a.ipynb", notebook("x", PROGRAM))
    assert "a.ipynb:cell 2:1:46: LSO101 breaks" in check("a.ipynb")[1]


def test_json():
    code, text = check("--format", "json", "program.py")
    document = json.loads(text)
    assert (code, document["version"], document["target"]) == (1, 1, "2.21")
    finding = document["findings"][1]
    assert finding.keys() == KEYS
    assert (finding["file"], finding["cell"]) == ("program.py", None)
    assert (finding["line"], finding["column"]) == (2, 1)
    assert finding["code"] == 'mp.set_policy("mixed_float16")'
    assert (finding["kind"], finding["name"]) == ("attribute", f"{NAME}.set_policy")
    assert finding["replacement"] == "tf_lso" + finding["name"][2:]
    assert (finding["status"], finding["guarded"]) == ("breaks", False)
    assert document["unreadable"] == []
    counts = {"files": 1, "findings": 3, "breaks": 3, "exit_code": 1}
    counts |= {"changed": 1, "places": 1, "left": 0}
    zeros = dict.fromkeys(("wrong", "guarded", "works", "unsure", "unreadable"), 0)
    assert document["summary"] == counts | zeros


def test_json_of_what_trains_wrong():
    document = checked(SILENT)
    assert document["findings"][0]["status"] == "wrong"
    summary = document["summary"]
    assert (summary["wrong"], summary["breaks"], summary["exit_code"]) == (1, 1, 1)


def test_json_of_the_unreadable():
    document = checked(notebook("x", "def loss_scale(:"), name="a.ipynb")
    (item,) = document["unreadable"]
    assert (os.path.basename(item["file"]), item["cell"], item["line"]) == (
        "a.ipynb",
        2,
        1,
    )
    assert item["reason"].startswith("does not parse")


def test_tf_keras_has_no_other_name_today():
    program = "import tf_keras\ntf_keras.mixed_precision.LossScaleOptimizer(o)\n"
    (found,) = checked(program)["findings"]
    assert found["current"] == ""


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


class TestGithub:
    @pytest.fixture
    def annotations(self, program):
        """Returns (exit code, level, properties, message) of each annotation."""

        def annotations(text, *paths):
            program.write_text(text)
            code, printed = check("--format", "github", *paths)
            return code, [
                (level, dict(p.split("=", 1) for p in properties.split(",")), message)
                for level, properties, message in re.findall(
                    r"^::(error|warning|notice) (\S.*?)::(.*)$", printed, re.MULTILINE
                )
            ]

        return annotations

    def test_each_finding_is_an_annotation_at_its_place(self, annotations):
        code, found = annotations(SILENT, "./program.py")
        assert code == 1
        places = [(level, p["file"], p["line"], p["col"]) for level, p, _ in found]
        assert places == [
            ("error", "program.py", "2", "4"),
            ("notice", "program.py", "3", "16"),
            ("error", "program.py", "4", "1"),
            ("notice", "program.py", "5", "1"),
        ]
        _, properties, message = found[2]
        name = "tf.mixed_precision.experimental.DynamicLossScale"
        assert properties["title"] == f"LSO101 breaks on TensorFlow 2.21%3A {name}"
        assert "AttributeError" in message and f"tf_lso{name[2:]}" in message

    def test_what_only_a_run_can_tell_is_a_warning(self, annotations):
        _, found = annotations("from keras.mixed_precision import *\n", ".")
        assert [level for level, _, _ in found] == ["warning"]

    def test_what_would_end_a_command_is_escaped(self, annotations):
        write("a,b:c%\n.py", PROGRAM)
        _, found = annotations("", ".")
        assert {p["file"] for _, p, _ in found} == {"a%2Cb%3Ac%25%0A.py"}

    def test_a_cell_has_no_line_in_the_file(self, annotations):
        write("a.ipynb", notebook("x", PROGRAM))
        _, ((_, properties, message), *_) = annotations("", ".")
        assert properties.keys() == {"file", "title"}
        assert message.startswith("cell 2, line 1: ")

    def test_what_cannot_be_read_is_an_error(self, annotations):
        code, found = annotations("x\nprint loss_scale\n", ".", "none.py")
        assert code == 2
        assert [(level, p["file"], p.get("line")) for level, p, _ in found] == [
            ("error", "none.py", None),
            ("error", "program.py", "2"),
        ]


class TestTarget:
    @pytest.mark.parametrize("target", ["2.15", "2.15.1", "2.15.0rc1"])
    def test_the_reports_name_it(self, target):
        write("program.py", "from keras.mixed_precision import Policy\n" + PROGRAM)
        said = {
            form: run("check", "--target", target, "--format", form, "program.py")[1]
            for form in ("text", "json", "github")
        }
        assert "    2.15:   ImportError: TensorFlow 2.15 has no" in said["text"]
        assert (
            "for TensorFlow 2.15: 4 legacy uses, 3 would break, 1 works."
            in (said["text"])
        )
        assert json.loads(said["json"])["target"] == "2.15"
        assert "breaks on TensorFlow 2.15" in said["github"]

    @pytest.mark.parametrize("target", ["2.11", "2.22", "1.15", "3", "newest", ""])
    def test_an_unknown_one_is_refused_with_those_that_are_known(self, target, capsys):
        with pytest.raises(SystemExit) as end:
            run("check", "program.py", f"--target={target}")
        assert end.value.code == 2
        said = capsys.readouterr().err
        assert repr(target) in said
        assert all(version in said for version in TARGETS)

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
    def test_the_default_is_the_installed_one(
        self, package, version, target, monkeypatch
    ):
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
