"""What a file system, a terminal or a user may do meanwhile; the others go on."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from tests.migrate.files import NEW, OLD, git, write
from tests.processes import HANGS_AFTER, ROOT
from tf_lso.commands import programs


def process(*arguments, **options):
    """Starts the command as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "tf_lso", "migrate", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


class TestWhatIsNoFile:
    @pytest.mark.parametrize("codec", ["hex", "rot13", "utf-16", "undefined"])
    def test_a_codec_that_is_not_for_text(self, codec, migrate):
        text = f"# coding: {codec}\nfrom tensorflow.keras import mixed_precision\n"
        bad, good = write("a.py", text), write("b.py")
        code, printed = migrate("--write", ".")
        assert code == 2 and "./a.py" in printed and "left alone" in printed
        assert (bad.read_text(), good.read_text()) == (text, NEW)

    def test_a_pipe_is_not_waited_for(self, folder):
        os.mkfifo("a.py")
        good = write("b.py")
        paths = ("a.py", "b.py", os.devnull)
        with process("--write", *paths, stdout=subprocess.PIPE) as running:
            try:
                printed, _ = running.communicate(timeout=HANGS_AFTER)
            finally:
                running.kill()  # where it waits for ever
        assert running.returncode == 2 and good.read_text() == NEW
        assert "a.py: left alone  is no regular file" in printed
        assert f"{os.devnull}: left alone  is no regular file" in printed

    def test_links_to_themselves_are_passed_over(self, migrate):
        os.symlink("loop.py", "loop.py")
        os.symlink("loop", "loop")
        good = write("z.py")
        assert migrate("--write", ".")[0] == 0
        assert good.read_text() == NEW

    def test_a_link_to_a_file_that_is_read_is_that_file(self, migrate):
        write("b.py")
        os.symlink("b.py", "a.py")
        assert migrate("--write", ".")[0] == 0
        assert pathlib.Path("b.py").read_text() == NEW
        assert os.path.islink("a.py")


class TestMeanwhile:
    def test_a_file_that_goes_away(self, migrate, monkeypatch):
        path = write("a.py")
        diagnose = programs.diagnose

        def diagnosed(*arguments, **options):
            path.unlink(missing_ok=True)
            return diagnose(*arguments, **options)

        monkeypatch.setattr(programs, "diagnose", diagnosed)
        code, printed = migrate("--write", "a.py")
        assert code == 2 and "a.py: left alone  cannot be written" in printed
        assert os.listdir() == []

    def test_an_error_of_our_own_is_told_and_the_others_go_on(
        self,
        migrate,
        monkeypatch,
    ):
        write("a.py")
        good = write("b.py")
        diagnose = programs.diagnose

        def failing(cells, path, *arguments):
            if path.endswith("a.py"):
                raise KeyError("x")
            return diagnose(cells, path, *arguments)

        monkeypatch.setattr(programs, "diagnose", failing)
        code, printed = migrate("--write", ".")
        assert (code, good.read_text()) == (2, NEW)
        assert "./a.py: left alone  tf-lso fails on it: KeyError: 'x'" in printed

    def test_the_owner_stays(self, migrate):
        if os.geteuid() != 0:
            pytest.skip("only root can give a file to somebody else")
        path = write("a.py")
        path.chmod(0o644)
        os.chown(path, 1234, 1235)
        assert migrate("--write", "a.py")[0] == 0
        found = path.stat()
        assert (path.read_text(), found.st_uid, found.st_gid) == (NEW, 1234, 1235)

    def test_an_interrupt_ends_it_between_files(self, folder):
        for number in range(400):
            write(f"f{number}.py", OLD + "x = [1, 2, 3]\n" * 400)
        running = process(
            "--write", ".", stdout=subprocess.PIPE, start_new_session=True
        )
        deadline = time.monotonic() + HANGS_AFTER
        first = pathlib.Path("f0.py")
        while first.read_text().startswith(OLD) and time.monotonic() < deadline:
            time.sleep(0.01)
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does
        _, errors = running.communicate(timeout=HANGS_AFTER)
        assert running.returncode in (0, 130)  # 0: it was faster
        assert "Traceback" not in errors
        assert {path.suffix for path in pathlib.Path().iterdir()} == {".py"}
        for path in pathlib.Path().iterdir():
            assert path.read_text().startswith((OLD, NEW))


class TestStreams:
    @pytest.mark.parametrize("flags, code", [((), 0), (("--check",), 1)])
    @pytest.mark.parametrize("form", ["text", "json"])
    def test_without_standard_streams(self, folder, flags, code, form):
        path = write("a.py")
        command = (
            f"{sys.executable} -m tf_lso migrate --format {form} {' '.join(flags)}"
        )
        ended = subprocess.run(
            f"{command} a.py <&- >&-",
            shell=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ended.returncode, ended.stderr) == (code, "")
        assert path.read_text() == OLD

    def test_names_with_spaces_are_patched(self, migrate):
        git("init", "-q")
        path = write("a b/c d.py")
        _, printed = migrate(".")
        write("patch", printed)
        git("apply", "patch")
        assert path.read_text() == NEW


def test_a_file_of_many_uses_ends(migrate):
    """It took the third power of their number: hours, for these."""
    path = write(
        "a.py", "import tensorflow as tf\n" + "tf.keras.mixed_precision\n" * 9999
    )
    assert migrate("--write", "a.py")[0] == 0
    assert (
        path.read_text() == "import tf_lso\n" + "tf_lso.keras.mixed_precision\n" * 9999
    )
