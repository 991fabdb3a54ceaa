"""Files: what is read, what is written, what is left alone, and the exit codes."""

import os
import pathlib
import re
import signal
import stat
import subprocess
import sys
import time

import pytest

from tests.migrate.programs import git, notebook, run, write
from tests.processes import HANGS_AFTER, ROOT
from tf_lso.migrate import files

pytestmark = pytest.mark.usefixtures("folder")

OLD = "from tensorflow.keras.mixed_precision import experimental\n"
NEW = "from tf_lso.keras.mixed_precision import experimental\n"


def migrate(*arguments):
    """Runs the command; returns its exit code and what it printed."""
    return run("migrate", *arguments)


def process(*arguments, **options):
    """Starts the command as a process of its own."""
    command = [sys.executable, "-m", "tf_lso", "migrate", *arguments]
    piped = dict.fromkeys(["stdout", "stderr"], subprocess.PIPE)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, env=environment, text=True, **piped, **options)


def write_old(*names):
    """Writes files of one old name each."""
    for name in names:
        write(name, OLD)


def changed(*names):
    """Returns which of those files are migrated; the others are as they were."""
    texts = {name: pathlib.Path(name).read_text() for name in names}
    assert set(texts.values()) <= {OLD, NEW}
    return [name for name, text in texts.items() if text == NEW]


class TestWhatIsWritten:
    def test_the_file_when_asked(self):
        write_old("a.py")
        code, printed = migrate("--write", "a.py")
        assert (code, changed("a.py")) == (0, ["a.py"])
        assert "1 changed, in 1 place" in printed
        assert migrate("--write", "a.py")[1].startswith(
            "1 file read: nothing to change."
        )

    @pytest.mark.parametrize("flag, code", [("--check", 1), ("--write", 0)])
    def test_files_of_all_kinds_as_a_hook_names_them(self, flag, code):
        """As pre-commit finds them: by type, so a script may have no suffix."""
        script, plain = write("bin/a script", OLD), write("b.py", "x = 1\n")
        cells = write("c.ipynb", notebook(OLD))
        assert migrate(flag, script, plain, cells)[0] == code
        expected = NEW if flag == "--write" else OLD
        assert script.read_text() == expected
        assert cells.read_text() == notebook(expected)
        assert plain.read_text() == "x = 1\n"
        assert migrate("--check", script, plain, cells)[0] == code

    def test_check_and_write_exclude_each_other(self):
        with pytest.raises(SystemExit) as end:
            migrate("--check", "--write", "a.py")
        assert end.value.code == 2

    def test_the_mode_stays_and_no_temporary_file(self):
        write("a.py", OLD).chmod(0o751)
        migrate("--write", ".")
        assert stat.S_IMODE(os.stat("a.py").st_mode) == 0o751
        assert os.listdir() == changed("a.py") == ["a.py"]

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
    def test_the_owner_stays(self):
        write("a.py", OLD).chmod(0o644)
        os.chown("a.py", 1234, 1235)
        assert migrate("--write", "a.py")[0] == 0
        found = os.stat("a.py")
        assert changed("a.py") and (found.st_uid, found.st_gid) == (1234, 1235)

    @pytest.mark.parametrize("name", ["a.py", "a b/c d.py"])
    def test_the_diff_is_a_patch(self, name):
        git("init", "-q")
        path = write(f"src/{name}", f"x = 1\n{OLD}y = 2")
        write(
            "src/b.py",
            "import tensorflow as tf\r\ntf.keras.mixed_precision.experimental\r\n",
        )
        _, printed = migrate("src")
        write("patch", printed)
        git("apply", "patch")
        assert migrate("--check", "src")[0] == 0
        assert path.read_text() == f"x = 1\n{NEW}y = 2"

    def test_the_diff_of_a_file_with_a_byte_order_mark_is_a_patch(self):
        git("init", "-q")
        path = write("a.py", f"\ufeffx = 1\n{OLD}")
        write("patch", run("migrate", "--diff", "a.py")[1])
        git("apply", "patch")
        assert path.read_bytes().decode() == f"\ufeffx = 1\n{NEW}"


def test_a_file_whose_migration_would_be_no_python_is_left_alone(monkeypatch):
    monkeypatch.setattr("tf_lso.migrate.install._first", lambda body: 0)
    old = "from __future__ import annotations\nimport tensorflow as tf\n"
    old += "tf.keras.mixed_precision.experimental\n"
    path = write("a.py", old)
    code, printed = migrate("--write", "--like", "2.4", "a.py")
    assert (code, path.read_text()) == (2, old)
    assert "left alone  its migration would be no Python" in printed


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


@pytest.mark.parametrize("kind", KEPT)
def test_a_file_without_an_old_name_is_not_touched(kind):
    path = write("a.py", KEPT[kind])
    before = path.stat()
    assert migrate("--write", "a.py")[0] == 0
    assert path.read_bytes() == KEPT[kind]
    assert path.stat().st_ino == before.st_ino
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def left_alone():
    """Migrates the folder and another file; returns why the rest is left alone."""
    write_old("z.py")
    code, printed = migrate("--write", ".")
    assert (code, changed("z.py")) == (2, ["z.py"])
    return dict(re.findall("^(.*): left alone  (.*)", printed, re.MULTILINE))


class TestWhatIsLeftAlone:
    """It is named with the reason, the exit code is 2, and the others go on."""

    def test_a_write_that_fails(self, monkeypatch):
        def fail(*arguments):
            raise OSError(28, "No space left on device")

        write_old("a.py")
        monkeypatch.setattr(os, "replace", fail)
        code, printed = migrate("--write", "a.py")
        assert (code, changed("a.py"), os.listdir()) == (2, [], ["a.py"])
        assert "a.py: left alone  cannot be written: No space left" in printed

    def test_links(self):
        write_old("elsewhere/a.txt", "m.py")
        os.symlink("elsewhere/a.txt", "a.py")
        os.symlink("m.py", "b.py")
        os.symlink("m.py", "n.py")
        os.symlink("loop.py", "loop.py")
        os.symlink("loop", "loop")
        said = left_alone()  # the others lead to a file that is read, or nowhere
        assert said.keys() == {"./a.py"} and "is a link" in said["./a.py"]
        assert os.path.islink("a.py")
        assert changed("elsewhere/a.txt", "m.py") == ["m.py"]

    def test_a_read_only_file(self):
        write("a.py", OLD).chmod(0o444)
        assert left_alone()["./a.py"].startswith("is read-only")
        assert changed("a.py") == []

    def test_a_file_that_goes_away(self, monkeypatch):
        write_old("a.py")

        def examined(path, *arguments, whole=files.examine):
            done = whole(path, *arguments)
            if path == "./a.py":
                pathlib.Path(path).unlink()
            return done

        monkeypatch.setattr(files, "examine", examined)
        assert left_alone()["./a.py"].startswith("cannot be written")
        assert os.listdir() == ["z.py"]

    def test_an_error_of_our_own(self, monkeypatch):
        write_old("a.py")

        def failing(file, *arguments, whole=files._program):
            if file.path.endswith("a.py"):
                raise KeyError("x")
            return whole(file, *arguments)

        monkeypatch.setattr(files, "_program", failing)
        assert left_alone()["./a.py"] == "tf-lso fails on it: KeyError: 'x'"

    def test_a_pipe_is_not_waited_for(self):
        os.mkfifo("a.py")
        write_old("b.py")
        with process("--write", "a.py", "b.py", os.devnull) as running:
            try:
                printed, _ = running.communicate(timeout=HANGS_AFTER)
            finally:
                running.kill()  # where it waits for ever
        assert (running.returncode, changed("b.py")) == (2, ["b.py"])
        assert "a.py: left alone  is no regular file" in printed
        assert f"{os.devnull}: left alone  is no regular file" in printed


def repository(ignores, folder="."):
    """Makes a folder a repository that ignores some files."""
    git("init", "-q", folder)
    write(f"{folder}/.gitignore", ignores)


class TestFolders:
    def test_what_git_ignores_is_left_out(self):
        repository("build/\n*_pb2.py\n")
        names = "a.py", "src/b.py", "build/c.py", "src/d_pb2.py", ".h/e.py", "venv/f.py"
        write_old(*names)
        write("venv/pyvenv.cfg", "")
        code, printed = migrate("--write", ".")
        assert code == 0 and printed.startswith("--- a/a.py")
        assert changed(*names) == ["a.py", "src/b.py"]

    def test_a_repository_within_a_repository_has_rules_of_its_own(self):
        repository("x.py\n")
        repository("y.py\n", "inner")
        names = ("x.py", "y.py", "inner/x.py", "inner/y.py")
        write_old(*names)
        migrate("--write", ".")
        assert changed(*names) == ["y.py", "inner/x.py"]

    @pytest.mark.parametrize(
        ("name", "value", "asked"),
        [
            ("GIT_DIR", "/nowhere", True),
            ("GIT_WORK_TREE", "/nowhere", True),
            ("PATH", "", False),
            ("PATH", "/nowhere", False),
        ],
    )
    def test_git_is_asked_where_it_is(self, monkeypatch, name, value, asked):
        repository("a.py\n")
        write_old("a.py")
        monkeypatch.setenv(name, value)
        assert migrate("--write", ".")[0] == 0
        assert changed("a.py") == ([] if asked else ["a.py"])

    def test_it_is_told_where_git_does_not_say(self, capsys):
        write(".git", "no repository")
        write(".gitignore", "a.py\n")
        write_old("a.py")
        assert migrate("--write", ".")[0] == 0
        assert changed("a.py") == ["a.py"]
        said = capsys.readouterr().err
        assert "since git does not say what it ignores: fatal" in said

    def test_a_file_that_is_named_is_taken_though_git_ignores_it(self):
        repository("a.py\n")
        write_old("a.py")
        migrate("--write", "a.py")
        assert changed("a.py") == ["a.py"]

    def test_a_package_keeps_its_imports(self):
        program = "import tensorflow as tf\nx = tf.keras.mixed_precision.experimental\n"
        for path in [write(f"pkg/{name}.py", program) for name in ("__init__", "a")]:
            migrate("--write", ".")
            assert path.read_text().startswith(
                "import tensorflow as tf\nimport tf_lso\n"
            )


def test_an_interrupt_ends_it_between_files():
    for number in range(100):
        write(f"f{number}.py", OLD + "#\n" * 100)
    running = process("--write", ".", start_new_session=True)
    deadline = time.monotonic() + HANGS_AFTER
    first = pathlib.Path("f0.py")
    while first.read_text().startswith(OLD) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does
    _, errors = running.communicate(timeout=HANGS_AFTER)
    assert running.returncode in (0, 130)  # 0: it was faster
    assert "Traceback" not in errors
    for path in pathlib.Path().iterdir():
        assert path.suffix == ".py" and path.read_text().startswith((OLD, NEW))


@pytest.mark.parametrize("flags, code", [("", 0), ("--check", 1)])
@pytest.mark.parametrize("form", ["text", "json"])
def test_without_standard_streams(flags, code, form):
    write_old("a.py")
    command = f"{sys.executable} -m tf_lso migrate --format {form} {flags} a.py <&- >&-"
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, shell=True, env=variables, stderr=subprocess.PIPE)
    assert (ended.returncode, ended.stderr, changed("a.py")) == (code, b"", [])


def test_a_file_of_many_uses_ends():
    """It took the third power of their number: hours, for these."""
    uses = "tf.keras.mixed_precision.experimental\n" * 2000
    path = write("a.py", f"import tensorflow as tf\n{uses}")
    assert migrate("--write", "a.py")[0] == 0
    assert path.read_text() == "import tf_lso\n" + uses.replace("tf", "tf_lso")


def test_the_hooks_are_commands_of_ours():
    """What `.pre-commit-hooks.yaml` says, for what we read."""
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
