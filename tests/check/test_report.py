"""The text and the JSON that the command prints."""

import json
import os
import subprocess
import sys

import pytest

from tests.check.programs import notebook, run

pytestmark = pytest.mark.core

PROGRAM = """\
from tensorflow.keras.mixed_precision import experimental as mp
mp.set_policy("mixed_float16")
mp.set_policy("mixed_float16")
"""
KEYS = {
    "file",
    "cell",
    "line",
    "column",
    "kind",
    "name",
    "code",
    "status",
    "guarded",
    "today",
    "tf_lso",
    "current",
    "replacement",
    "rule",
    "fix",
    "why_not",
}


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def test_text(program):
    code, text = run(program)
    assert code == 1
    lines = text.splitlines()
    name = "tf.keras.mixed_precision.experimental"
    assert lines[0] == f"{program}:1:46: LSO101 breaks  {name}"
    assert lines[1] == f"    {PROGRAM.splitlines()[0]}"
    assert lines[2].startswith("    today:  ImportError: ")
    assert f"{program}:2:1: LSO101 breaks  {name}.set_policy" in lines
    assert f"    tf_lso: tf_lso.{name.removeprefix('tf.')}.set_policy:" in text
    assert "    now:    tf.keras.config.set_dtype_policy" in lines
    again = lines.index(f"{program}:3:1: LSO101 breaks  {name}.set_policy")
    assert lines[again + 2] == "    as in line 2"
    assert "1 file read, for TensorFlow 2.21: 3 legacy uses, 3 would break." in lines
    assert "tf-lso run SCRIPT" in lines[-1] and "tf_lso.install()" in lines[-1]
    assert "\033" not in text


def test_text_where_nothing_is_found(tmp_path):
    (tmp_path / "a.py").touch()
    code, text = run(tmp_path)
    assert code == 0
    assert text == (
        "1 file read, for TensorFlow 2.21: no use of the legacy loss-scaling API "
        "found.\n"
    )


def test_text_of_the_unreadable(tmp_path):
    (tmp_path / "a.py").write_text("x\nprint loss_scale\n")
    _, text = run(tmp_path, tmp_path / "missing")
    assert f"{tmp_path}/a.py:2: unreadable  does not parse" in text
    assert f"{tmp_path}/missing: unreadable  No such file or directory" in text
    assert text.splitlines()[-1].endswith("; 2 unreadable.")


def test_text_names_the_cell(tmp_path):
    path = tmp_path / "a.ipynb"
    path.write_bytes(notebook("x", PROGRAM))
    assert f"{path}:cell 2:1:46: LSO101 breaks" in run(path)[1]


def test_json(program):
    code, text = run("--format", "json", program)
    document = json.loads(text)
    assert code == 1 and document["version"] == 1
    assert document["target"] == "2.21"
    finding = document["findings"][1]
    assert finding.keys() == KEYS
    assert finding["file"] == str(program)
    assert (finding["cell"], finding["line"], finding["column"]) == (None, 2, 1)
    assert finding["code"] == 'mp.set_policy("mixed_float16")'
    assert finding["name"] == "tf.keras.mixed_precision.experimental.set_policy"
    assert finding["replacement"] == "tf_lso" + finding["name"][2:]
    assert (finding["status"], finding["guarded"]) == ("breaks", False)
    assert document["unreadable"] == []
    assert document["summary"] == {
        "files": 1,
        "findings": 3,
        "wrong": 0,
        "breaks": 3,
        "guarded": 0,
        "works": 0,
        "unsure": 0,
        "changed": 1,
        "places": 1,
        "left": 0,
        "unreadable": 0,
        "exit_code": 1,
    }


def test_json_of_the_unreadable(tmp_path):
    path = tmp_path / "a.ipynb"
    path.write_bytes(notebook("x", "def loss_scale(:"))
    (item,) = json.loads(run("--format", "json", path)[1])["unreadable"]
    assert (item["file"], item["cell"], item["line"]) == (str(path), 2, 1)
    assert item["reason"].startswith("does not parse")


@pytest.mark.parametrize("form", ["text", "json"])
def test_odd_file_names(tmp_path, form):
    for name in (b'\xff\n".py', "é✓.py".encode()):
        with open(os.path.join(os.fsencode(tmp_path), name), "w") as file:
            file.write(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "tf_lso", "check", "--format", form, str(tmp_path)],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert (done.returncode, done.stderr) == (1, b"")
    if form == "json":
        names = {item["file"] for item in json.loads(done.stdout)["findings"]}
        assert {os.path.basename(os.fsencode(name)) for name in names} == {
            b'\xff\n".py',
            "é✓.py".encode(),
        }


def test_is_the_same_in_every_run(tmp_path):
    """Also of a name that may be two modules, which are kept in sets."""
    path = tmp_path / "program.py"
    path.write_text(
        "import keras\nfrom tensorflow import keras\n"
        "keras.mixed_precision.experimental.Policy('mixed_float16')\n"
    )
    command = [sys.executable, "-m", "tf_lso", "check", str(path)]
    reports = {
        subprocess.run(
            command, capture_output=True, env={**os.environ, "PYTHONHASHSEED": seed}
        ).stdout
        for seed in "1234"
    }
    assert len(reports) == 1


def test_imports_nothing_heavy():
    command = (
        "import sys; from tf_lso.commands import check, migrate;"
        "check.check([]); migrate.migrate([]);"
        "print([m for m in ('tensorflow', 'keras', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", command], capture_output=True)
    assert (done.stdout.strip(), done.stderr) == (b"[]", b"")
