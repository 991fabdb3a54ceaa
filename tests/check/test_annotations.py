"""What `--format github` prints for pull requests."""

import re

import pytest

from tests.check.programs import notebook, run

pytestmark = pytest.mark.core

PROGRAM = """\
import tensorflow as tf
if hasattr(opt, "get_scaled_loss"):
    loss = opt.get_scaled_loss(loss)
tf.mixed_precision.experimental.DynamicLossScale()
tf.keras.mixed_precision.global_policy()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def github(*paths):
    """Returns (exit code, level, properties, message) of each annotation."""
    code, text = run("--format", "github", *paths)
    return code, [
        (level, dict(p.split("=", 1) for p in properties.split(",")), message)
        for level, properties, message in re.findall(
            r"^::(error|warning|notice) (\S.*?)::(.*)$", text, re.MULTILINE
        )
    ]


class TestGithub:
    def test_each_finding_is_an_annotation_at_its_place(self, folder):
        (folder / "a.py").write_text(PROGRAM)
        code, found = github("./a.py")
        assert code == 1
        places = [(level, p["file"], p["line"], p["col"]) for level, p, _ in found]
        assert places == [
            ("error", "a.py", "2", "4"),
            ("notice", "a.py", "3", "16"),
            ("error", "a.py", "4", "1"),
            ("notice", "a.py", "5", "1"),
        ]
        _, properties, message = found[2]
        name = "tf.mixed_precision.experimental.DynamicLossScale"
        assert properties["title"] == f"LSO101 breaks on TensorFlow 2.21%3A {name}"
        assert "AttributeError" in message and f"tf_lso{name[2:]}" in message

    def test_what_would_end_a_command_is_escaped(self, folder):
        (folder / "a,b:c%\n.py").write_text(PROGRAM)
        _, found = github(".")
        assert {properties["file"] for _, properties, _ in found} == {
            "a%2Cb%3Ac%25%0A.py"
        }

    def test_a_cell_has_no_line_in_the_file(self, folder):
        (folder / "a.ipynb").write_bytes(notebook("x", PROGRAM))
        _, found = github(".")
        _, properties, message = found[0]
        assert properties.keys() == {"file", "title"}
        assert message.startswith("cell 2, line 2: ")

    def test_what_cannot_be_read_is_an_error(self, folder):
        (folder / "a.py").write_text("x\nprint loss_scale\n")
        code, found = github(".", "none.py")
        assert code == 2
        assert [(level, p["file"], p.get("line")) for level, p, _ in found] == [
            ("error", "none.py", None),
            ("error", "a.py", "2"),
        ]
