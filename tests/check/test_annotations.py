"""What `--format github` and `--format sarif` print for pull requests."""

import json
import re

import pytest

from tests.check.programs import notebook, run

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
        assert properties["title"] == f"breaks on TensorFlow 2.21%3A {name}"
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
        (folder / "a.py").write_text("x\nprint 1\n")
        code, found = github(".", "none.py")
        assert code == 2
        assert [(level, p["file"], p.get("line")) for level, p, _ in found] == [
            ("error", "none.py", None),
            ("error", "a.py", "2"),
        ]


# What the schema of SARIF 2.1.0 requires of each object: its path -> its properties.
REQUIRED = {
    (): {"version", "runs"},
    ("runs",): {"tool", "results"},
    ("runs", "tool"): {"driver"},
    ("runs", "tool", "driver"): {"name"},
    ("runs", "tool", "driver", "rules"): {"id"},
    ("runs", "results"): {"message"},
    ("runs", "results", "message"): {"text"},
    ("runs", "invocations"): {"executionSuccessful"},
    ("runs", "invocations", "toolExecutionNotifications"): {"message"},
    ("runs", "invocations", "toolExecutionNotifications", "message"): {"text"},
}
# All that the schema allows the objects which we write.
ALLOWED = {
    (): {"$schema", "version", "runs"},
    ("runs",): {"tool", "results", "invocations", "columnKind", "properties"},
    ("runs", "tool", "driver"): {"name", "version", "rules"},
    ("runs", "tool", "driver", "rules"): {"id", "shortDescription"},
    ("runs", "results"): {"ruleId", "ruleIndex", "level", "message", "locations"},
    ("runs", "results", "locations"): {"physicalLocation"},
    ("runs", "results", "locations", "physicalLocation"): {
        "artifactLocation",
        "region",
    },
}


def objects(value, path=()):
    """Yields the path and the value of each object of a JSON document."""
    if isinstance(value, list):
        for item in value:
            yield from objects(item, path)
    elif isinstance(value, dict):
        yield path, value
        for key, item in value.items():
            yield from objects(item, (*path, key))


def sarif(*paths):
    code, text = run("--format", "sarif", *paths)
    document = json.loads(text)
    for path, found in objects(document):
        assert found.keys() >= REQUIRED.get(path, set()), path
        assert found.keys() <= ALLOWED.get(path, found.keys()), path
    assert document["version"] == "2.1.0"
    (log,) = document["runs"]
    for result in log["results"]:
        rule = log["tool"]["driver"]["rules"][result["ruleIndex"]]
        assert rule["id"] == result["ruleId"]
        assert result["level"] in ("none", "note", "warning", "error")
    return code, log


class TestSarif:
    def test_each_finding_is_a_result_at_its_place(self, folder):
        (folder / "a b.py").write_text(f"# é\n{PROGRAM}", encoding="utf-8")
        code, log = sarif(".")
        assert code == 1
        assert log["columnKind"] == "unicodeCodePoints"
        assert log["properties"] == {"tensorflow": "2.21"}
        assert [(r["ruleId"], r["level"]) for r in log["results"]] == [
            ("wrong", "error"),
            ("breaks", "note"),
            ("breaks", "error"),
            ("works", "note"),
        ]
        (location,) = log["results"][2]["locations"]
        assert location["physicalLocation"] == {
            "artifactLocation": {"uri": "a%20b.py"},
            "region": {"startLine": 5, "startColumn": 1},
        }
        assert "AttributeError" in log["results"][2]["message"]["text"]
        (invocation,) = log["invocations"]
        assert invocation["executionSuccessful"] is True

    def test_an_absolute_path_is_a_file_uri(self, folder):
        (folder / "a.py").write_text(PROGRAM)
        _, log = sarif(folder / "a.py")
        (location,) = log["results"][0]["locations"]
        uri = location["physicalLocation"]["artifactLocation"]["uri"]
        assert uri == (folder / "a.py").as_uri()

    def test_a_cell_has_no_region_in_the_file(self, folder):
        (folder / "a.ipynb").write_bytes(notebook("x", PROGRAM))
        _, log = sarif(".")
        (location,) = log["results"][0]["locations"]
        assert location["physicalLocation"].keys() == {"artifactLocation"}
        assert log["results"][0]["message"]["text"].startswith("cell 2, line 2: ")

    def test_what_cannot_be_read_is_a_notification(self, folder):
        (folder / "a.py").write_text("x\nprint 1\n")
        code, log = sarif(".")
        assert code == 2 and log["results"] == []
        (invocation,) = log["invocations"]
        assert invocation["executionSuccessful"] is False
        (notification,) = invocation["toolExecutionNotifications"]
        assert "does not parse" in notification["message"]["text"]

    def test_nothing_found_is_a_whole_document(self, folder):
        assert sarif(".")[1]["results"] == []
