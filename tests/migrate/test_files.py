"""Which files `migrate` writes, how it writes them, and its exit codes."""

import os
import pathlib
import re
import stat
import subprocess
import sys

import pytest

from tests.migrate.programs import git, notebook, run, write
from tests.processes import ROOT
from tf_lso.migrate import engine, reading_files

pytestmark = pytest.mark.usefixtures("folder")

OLD = "from tensorflow.keras.mixed_precision import experimental\n"
NEW = "from tf_lso.keras.mixed_precision import experimental\n"


def migrate(*arguments):
    """Run `tf-lso migrate` in this process. Return its exit code and what it printed."""
    return run("migrate", *arguments)


def write_old(*names):
    """Write files that contain `OLD`."""
    for name in names:
        write(name, OLD)


def changed(*names):
    """Return which of these files are migrated. Assert that the others are unchanged."""
    texts = {name: pathlib.Path(name).read_text() for name in names}
    assert set(texts.values()) <= {OLD, NEW}
    return [name for name, text in texts.items() if text == NEW]


class TestWhatIsWritten:
    @pytest.mark.parametrize(
        ("flag", "code", "expected"), [("--check", 1, OLD), ("--write", 0, NEW)]
    )
    def test_a_hook_may_name_scripts_programs_and_notebooks(self, flag, code, expected):
        """pre-commit finds files by their type, so a script may have no suffix."""
        script = write("bin/a script", OLD)
        program = write("b.py", "x = 1\n")
        cells = write("c.ipynb", notebook(OLD))
        assert migrate(flag, script, program, cells)[0] == code
        assert script.read_text() == expected
        assert cells.read_text() == notebook(expected)
        assert program.read_text() == "x = 1\n"
        assert migrate("--check", script, program, cells)[0] == code

    def test_the_mode_of_the_file_stays_and_no_temporary_file_remains(self):
        write("a.py", OLD).chmod(0o751)
        code, printed = migrate("--write", ".")
        assert (code, "1 changed, in 1 place" in printed) == (0, True)
        assert stat.S_IMODE(os.stat("a.py").st_mode) == 0o751
        assert changed("a.py") == ["a.py"]
        assert os.listdir() == ["a.py"]
        _, printed = migrate("--write", "a.py")
        assert printed.startswith("1 file read: nothing to change.")

    def test_git_applies_the_printed_diff(self):
        git("init", "-q")
        path = write("src/a b/c d.py", f"\ufeffx = 1\n{OLD}y = 2")
        write(
            "src/b.py",
            "import tensorflow as tf\r\ntf.keras.mixed_precision.experimental\r\n",
        )
        _, printed = migrate("src")
        write("patch", printed)
        git("apply", "patch")
        assert migrate("--check", "src")[0] == 0
        assert path.read_text() == f"\ufeffx = 1\n{NEW}y = 2"


def test_a_file_is_left_alone_if_its_migration_would_not_be_python(monkeypatch):
    # Make `migrate` add code before `from __future__`, which is a syntax error.
    monkeypatch.setattr("tf_lso.migrate.added_imports._may_precede", lambda line: False)
    old = "from __future__ import annotations\nimport tensorflow as tf\n"
    old += "tf.keras.mixed_precision.experimental\n"
    path = write("a.py", old)
    code, printed = migrate("--write", "--like", "2.4", "a.py")
    assert (code, path.read_text()) == (2, old)
    assert "left alone  the result would not be valid Python" in printed


# Files that `migrate` must not change, with bytes that a program easily loses. They contain
# at most a part of an old name.
UNCHANGED = {
    "carriage returns": b"x = 1\r\ny = 'mixed_precision'\r\n",
    "byte order mark": b"\xef\xbb\xbfx = 'mixed_precision'\n",
    "declared encoding": b"# -*- coding: latin-1 -*-\nx = 'mixed_precision \xe9'\n",
    "empty": b"",
}


@pytest.mark.parametrize("kind", UNCHANGED)
def test_a_file_without_an_old_name_is_not_written(kind):
    path = write("a.py", UNCHANGED[kind])
    before = path.stat()
    assert migrate("--write", "a.py")[0] == 0
    assert path.read_bytes() == UNCHANGED[kind]
    assert path.stat().st_ino == before.st_ino
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def left_alone():
    """Migrate the current folder and the new file z.py, which must be changed.

    Return a dict from the files that are left alone to the reasons.
    """
    write_old("z.py")
    code, printed = migrate("--write", ".")
    assert (code, changed("z.py")) == (2, ["z.py"])
    return dict(re.findall("^(.*): left alone  (.*)", printed, re.MULTILINE))


def call_after_examination(monkeypatch, function):
    """Make `migrate` call a function after it has read a.py, and before it writes a.py."""
    original = reading_files.examine

    def examine(path, *arguments):
        examined = original(path, *arguments)
        if path == "./a.py":
            function()
        return examined

    monkeypatch.setattr(reading_files, "examine", examine)


def test_a_link_stays_and_the_linked_file_is_changed():
    write_old("elsewhere/a.txt", "m.py")
    os.symlink("elsewhere/a.txt", "a.py")
    os.symlink("m.py", "n.py")
    os.symlink("loop", "loop")
    assert migrate("--write", ".")[0] == 0
    assert os.path.islink("a.py") and os.path.islink("n.py")
    assert len(changed("elsewhere/a.txt", "m.py")) == 2


class TestWhatIsLeftAlone:
    """A file that cannot be migrated is reported with the reason. Others are migrated."""

    def test_a_file_that_cannot_be_written(self, monkeypatch):
        def fail(*arguments):
            raise OSError(28, "No space left on device")

        write_old("a.py")
        monkeypatch.setattr(os, "replace", fail)
        code, printed = migrate("--write", "a.py")
        assert code == 2
        assert changed("a.py") == []
        assert os.listdir() == ["a.py"]
        assert "a.py: left alone  cannot be written: No space left" in printed

    def test_a_file_that_another_process_deletes(self, monkeypatch):
        write_old("a.py")
        call_after_examination(monkeypatch, lambda: os.unlink("a.py"))
        assert left_alone()["./a.py"].startswith("cannot be written")
        assert os.listdir() == ["z.py"]

    def test_a_file_that_another_process_changes(self, monkeypatch):
        write_old("a.py")
        changed_text = "x = 1\n"
        call_after_examination(
            monkeypatch, lambda: pathlib.Path("a.py").write_text(changed_text)
        )
        assert left_alone() == {
            "./a.py": "cannot be written: it was changed in the meantime"
        }
        assert pathlib.Path("a.py").read_text() == changed_text
        assert sorted(os.listdir()) == ["a.py", "z.py"]

    def test_a_file_on_which_tf_lso_itself_fails(self, monkeypatch):
        original = engine.examine

        def fail(source, *arguments, **options):
            if b"#" in source:
                raise KeyError("x")
            return original(source, *arguments, **options)

        write("a.py", f"{OLD}#")
        monkeypatch.setattr(engine, "examine", fail)
        assert left_alone()["./a.py"] == "tf-lso failed on this file: KeyError: 'x'"


def test_the_command_works_without_standard_streams():
    write_old("a.py")
    command = f"{sys.executable} -m tf_lso migrate --check a.py <&- >&-"
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, shell=True, env=variables, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (1, b"")
    assert changed("a.py") == []


@pytest.mark.slow
def test_a_file_with_2000_uses_is_migrated():
    """The time of an earlier version grew with the cube of the number: hours for this file."""
    uses = "tf.keras.mixed_precision.experimental\n" * 2000
    path = write("a.py", f"import tensorflow as tf\n{uses}")
    assert migrate("--write", "a.py")[0] == 0
    migrated = uses.replace("tf", "tf_lso")
    assert path.read_text() == f"import tensorflow as tf\nimport tf_lso\n{migrated}"


def test_the_hooks_of_pre_commit_call_existing_commands():
    """`.pre-commit-hooks.yaml` names commands that exist, for the file types that they read."""
    text = (ROOT / ".pre-commit-hooks.yaml").read_text()
    entries = re.findall("entry: (.*)", text)
    assert entries == [
        "tf-lso check",
        "tf-lso migrate --check",
        "tf-lso migrate --write",
    ]
    for entry in entries:
        with pytest.raises(SystemExit) as end:
            run(*entry.split()[1:], "--help")
        assert end.value.code == 0
    assert text.count("types_or: [python, jupyter]") == len(entries)
