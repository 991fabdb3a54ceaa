"""Files: what is read, what is written, what is left alone, and the exit codes."""

import json
import os
import pathlib
import stat

import pytest

from tests.migrate.files import NEW, OLD, git, write
from tf_lso import cli


class TestWhatIsWritten:
    def test_nothing_without_being_asked(self, migrate):
        path = write("a.py")
        code, printed = migrate("a.py")
        assert (code, path.read_text()) == (0, OLD)
        assert printed.startswith(f"--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-{OLD}+{NEW}")
        assert "1 file read: 1 would change, in 1 place.\n" in printed

    def test_the_file_when_asked(self, migrate):
        path = write("a.py")
        code, printed = migrate("--write", "a.py")
        assert (code, path.read_text()) == (0, NEW)
        assert "1 changed, in 1 place" in printed
        assert migrate("--write", "a.py")[1] == "1 file read: nothing to change.\n"

    def test_check_tells_by_its_exit_code(self, migrate):
        path = write("a.py")
        assert migrate("--check", "a.py")[0] == 1
        assert path.read_text() == OLD
        path.write_text(NEW)
        assert migrate("--check", "a.py")[0] == 0

    def test_check_and_write_exclude_each_other(self, migrate):
        with pytest.raises(SystemExit) as end:
            migrate("--check", "--write", "a.py")
        assert end.value.code == 2

    def test_the_mode_stays_and_no_temporary_file(self, migrate, folder):
        path = write("a.py")
        path.chmod(0o751)
        migrate("--write", ".")
        assert stat.S_IMODE(path.stat().st_mode) == 0o751
        assert os.listdir(folder) == ["a.py"]

    def test_a_write_that_fails_leaves_the_file(self, migrate, monkeypatch, folder):
        def fail(*arguments):
            raise OSError(28, "No space left on device")

        write("a.py")
        write("b.txt")
        monkeypatch.setattr(os, "replace", fail)
        code, printed = migrate("--write", "a.py")
        assert code == 2
        assert "a.py: left alone  cannot be written: No space left" in printed
        assert sorted(os.listdir(folder)) == ["a.py", "b.txt"]
        assert pathlib.Path("a.py").read_text() == OLD

    def test_the_diff_is_a_patch(self, migrate):
        git("init", "-q")
        write("src/a.py", f"x = 1\n{OLD}y = 2")
        write("src/b.py", "import tensorflow as tf\r\ntf.keras.mixed_precision\r\n")
        _, printed = migrate("src")
        write("patch", printed)
        git("apply", "patch")
        assert migrate("--check", "src")[0] == 0
        assert pathlib.Path("src/a.py").read_text() == f"x = 1\n{NEW}y = 2"

    def test_json(self, migrate):
        write("a.py", f"import tensorflow as tf\n{OLD}getattr(tf.keras, name)\n")
        write("b.py", "mixed_precision = (\n")
        code, printed = migrate("--format", "json", ".")
        document = json.loads(printed)
        assert code == 2
        counts = ("files", "findings", "changed", "places", "left", "unreadable")
        assert [document["summary"][word] for word in counts] == [2, 1, 1, 1, 1, 1]
        (changed,), (left,) = document["changed"], document["left"]
        assert changed["file"] == "./a.py" and f"+{NEW}" in changed["diff"]
        assert (left["file"], left["line"], left["code"]) == (
            "./a.py",
            3,
            "getattr(tf.keras, name)",
        )
        assert left["why"] and left["do"]
        assert document["unreadable"][0]["file"] == "./b.py"


# What has no old name, or only one that stays, in bytes that are easily lost.
KEPT = {
    "carriage returns": b"x = 1\r\ny = 'mixed_precision'\r\n",
    "old Mac": b"x = 1\ry = 'mixed_precision'\r",
    "mixed line ends": b"x = 1\r\ny = 2\nz = 'mixed_precision'",
    "no final newline": b"# mixed_precision",
    "tabs and form feeds": b"if 1:\n\tx = 'mixed_precision'\n\x0c\ny = 1   \n",
    "byte order mark": b"\xef\xbb\xbfx = 'mixed_precision'\n",
    "declared encoding": b"# -*- coding: latin-1 -*-\nx = 'mixed_precision \xe9'\n",
    "empty": b"",
}


class TestBytes:
    @pytest.mark.parametrize("kind", KEPT)
    def test_a_file_without_an_old_name_is_not_touched(self, kind, migrate):
        path = write("a.py", KEPT[kind])
        before = path.stat()
        assert migrate("--write", "a.py")[0] == 0
        assert path.read_bytes() == KEPT[kind]
        assert path.stat().st_ino == before.st_ino
        assert path.stat().st_mtime_ns == before.st_mtime_ns

    def test_columns_count_characters(self, migrate):
        text = (
            'import keras as k\nx = "\xe9\u20ac\U0001f600", k.mixed_precision.Policy\n'
        )
        path = write("a.py", text)
        migrate("--write", "--prefer", "tf_lso", "a.py")
        assert path.read_text("utf-8").endswith(
            '"\xe9\u20ac\U0001f600", tf_lso.keras.mixed_precision.Policy\n'
        )


# name -> (bytes, words of the reason)
BAD = {
    "syntax": (b"import (\nmixed_precision\n", "does not parse"),
    "bytes": (b"x = 'mixed_precision \xff'\n", "utf-8"),
    "not its declared encoding": (
        b"# coding: ascii\nx = 'mixed_precision \xe9'",
        "ascii",
    ),
    "unknown encoding": (b"# coding: klingon\nmixed_precision\n", "klingon"),
    "null bytes": (b"mixed_precision\0\n", "null bytes"),
    "depth": (b"x = " + b"-" * 100_000 + b"mixed_precision\n", "nested too deeply"),
}


class TestBadInput:
    @pytest.mark.parametrize("kind", BAD)
    def test_it_is_named_and_the_others_go_on(self, kind, migrate):
        data, words = BAD[kind]
        bad, good = write("a.py", data), write("b.py")
        code, printed = migrate("--write", ".")
        assert code == 2
        (line,) = [s for s in printed.splitlines() if "left alone  " in s]
        assert line.startswith("./a.py") and words in line
        assert bad.read_bytes() == data
        assert good.read_text() == NEW

    def test_a_link(self, migrate):
        target = write("elsewhere/a.txt")
        os.symlink(target, "a.py")
        code, printed = migrate("--write", ".")
        assert code == 2 and "./a.py: left alone  is a link" in printed
        assert os.path.islink("a.py") and target.read_text() == OLD

    def test_a_link_to_a_folder_is_not_followed(self, migrate, tmp_path_factory):
        other = tmp_path_factory.mktemp("other") / "a.py"
        other.write_text(OLD)
        os.symlink(other.parent, "linked")
        assert migrate("--write", ".") == (0, "0 files read: nothing to change.\n")
        assert other.read_text() == OLD

    def test_a_read_only_file(self, migrate):
        path = write("a.py")
        path.chmod(0o444)
        code, printed = migrate("--write", "a.py")
        assert code == 2 and "a.py: left alone  is read-only" in printed
        assert path.read_text() == OLD

    def test_what_is_not_there(self, migrate):
        write("b.py")
        code, printed = migrate("--write", "a.py", "b.py")
        assert code == 2 and "a.py: left alone  No such file" in printed
        assert pathlib.Path("b.py").read_text() == NEW

    def test_a_file_without_an_old_name_is_not_parsed(self, migrate):
        write("a.py", b"import (\n")
        assert migrate(".")[0] == 0
        assert migrate("a.py")[0] == 0


class TestFolders:
    def test_what_git_ignores_is_left_out(self, migrate):
        git("init", "-q")
        write(".gitignore", "build/\n*_pb2.py\n")
        names = ("a.py", "src/b.py", "build/c.py", "src/d_pb2.py", ".hidden/e.py")
        for name in (*names, "venv/f.py"):
            write(name)
        write("venv/pyvenv.cfg", "")
        code, printed = migrate("--write", ".")
        assert code == 0 and printed.startswith("--- a/a.py")
        changed = [name for name in names if pathlib.Path(name).read_text() == NEW]
        assert changed == ["a.py", "src/b.py"]

    def test_a_repository_within_a_repository_has_rules_of_its_own(self, migrate):
        git("init", "-q")
        write(".gitignore", "x.py\n")
        git("init", "-q", "inner")
        write("inner/.gitignore", "y.py\n")
        for name in ("x.py", "y.py", "inner/x.py", "inner/y.py"):
            write(name)
        migrate("--write", ".")
        kept = [
            n
            for n in ("x.py", "y.py", "inner/x.py", "inner/y.py")
            if pathlib.Path(n).read_text() == OLD
        ]
        assert kept == ["x.py", "inner/y.py"]

    def test_variables_of_another_repository_are_not_asked(self, migrate, monkeypatch):
        git("init", "-q")
        write(".gitignore", "a.py\n")
        path = write("a.py")
        monkeypatch.setenv("GIT_DIR", "/nowhere")
        monkeypatch.setenv("GIT_WORK_TREE", "/nowhere")
        assert migrate("--write", ".") == (0, "0 files read: nothing to change.\n")
        assert path.read_text() == OLD

    def test_it_is_told_where_git_does_not_say(self, migrate, capsys):
        write(".git", "no repository")
        write(".gitignore", "a.py\n")
        path = write("a.py")
        assert cli.main(["migrate", "--write", "."]) == 0
        assert path.read_text() == NEW
        assert (
            "since git does not say what it ignores: fatal" in capsys.readouterr().err
        )

    @pytest.mark.parametrize("found", ["", "/nowhere"])
    def test_without_git(self, migrate, monkeypatch, found):
        git("init", "-q")
        write(".gitignore", "a.py\n")
        path = write("a.py")
        monkeypatch.setenv("PATH", found)
        assert migrate("--write", ".")[0] == 0
        assert path.read_text() == NEW

    def test_a_file_that_is_named_is_taken_though_git_ignores_it(self, migrate):
        git("init", "-q")
        write(".gitignore", "a.py\n")
        path = write("a.py")
        migrate("--write", "a.py")
        assert path.read_text() == NEW

    def test_many_files(self, migrate):
        for number in range(90):
            write(f"p{number % 7}/f{number}.py", OLD if number % 2 else "x = 1\n")
        write("p0/bad.py", b"mixed_precision (\n")
        code, printed = migrate("--write", ".")
        assert code == 2
        assert "91 files read: 45 changed, in 45 places; 1 file left alone." in printed
        order = [s for s in printed.splitlines() if s.startswith("--- ")]
        assert len(order) == 45 and order == sorted(
            order, key=lambda s: s.split("/")[1]
        )
        assert pathlib.Path("p1/f1.py").read_text() == NEW

    def test_a_package_keeps_its_imports(self, migrate):
        program = "import tensorflow as tf\nx = tf.keras.mixed_precision.experimental\n"
        for name in ("__init__.py", "a.py"):
            write(f"pkg/{name}", program)
        migrate("--write", ".")
        package, module = (pathlib.Path(f"pkg/{n}") for n in ("__init__.py", "a.py"))
        assert package.read_text().startswith(
            "import tensorflow as tf\nimport tf_lso\n"
        )
        assert module.read_text().startswith("import tf_lso\n")

    def test_a_file_is_migrated_once(self, migrate):
        write("a.py")
        assert "\n1 file read: 1 would" in migrate("a.py", ".", "./a.py")[1]


def test_the_hook_runs_the_check():
    """What `.pre-commit-hooks.yaml` says is a command of ours, for what we read."""
    text = (pathlib.Path(__file__).parents[2] / ".pre-commit-hooks.yaml").read_text()
    entries = [
        line.split(": ", 1)[1] for line in text.splitlines() if "entry: " in line
    ]
    assert entries == [
        "tf-lso check",
        "tf-lso check --fix",
        "tf-lso migrate --check",
        "tf-lso migrate --write",
    ]
    for entry in entries:
        name, *arguments = entry.split()
        assert name == "tf-lso"
        with pytest.raises(SystemExit) as end:
            cli.main([*arguments, "--help"])
        assert end.value.code == 0
    assert text.count("types_or: [python, jupyter]") == len(entries)


@pytest.mark.parametrize(
    "flag, code, expected", [("--check", 1, OLD), ("--write", 0, NEW)]
)
def test_the_hook_is_given_names_of_files(flag, code, expected, migrate):
    """As pre-commit finds them: by type, so a script may have no suffix."""
    script, plain = write("bin/a script"), write("b.py", "x = 1\n")
    notebook = write(
        "c.ipynb", json.dumps({"cells": [{"cell_type": "code", "source": OLD}]})
    )
    assert migrate(flag, script, plain, notebook)[0] == code
    assert script.read_text() == expected
    assert json.loads(notebook.read_text())["cells"][0]["source"] == expected
    assert plain.read_text() == "x = 1\n"
