"""Test the command `tf-lso`, above all `tf-lso run`, which runs programs as Python does."""

import os
import signal
import subprocess
import sys
import textwrap
import time
import zipfile
from unittest import mock

import pytest

from tests import preloaded
from tests.generation import needs_tf_keras
from tests.processes import HANGS_AFTER, ROOT, hiding, start
from tf_lso import __version__, cli
from tf_lso.migrate import reading_files


@pytest.fixture
def script(tmp_path):
    """A function that writes a program into a file, and returns the path of the file."""

    def write(text, name="train.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    return write


def run_tf_lso(*arguments, by=start, **options):
    """Run `tf-lso` in a process.

    `by` is the function that runs the process: `start`, or the faster `preloaded.run` for a
    program that imports TensorFlow first.
    """
    return by(["-m", "tf_lso", *map(str, arguments)], **options)


def without_marks(text):
    """Return the lines of a traceback without the marks `^^^` of Python 3.11 and later."""
    return [line for line in text.splitlines() if set(line) - set(" ^~")]


# Programs that `python` and `tf-lso run` must run with the same result.
PROGRAMS = {
    "what a program sees": """\
from __future__ import annotations
import atexit, pickle, sys
import helper

class A: pass

x: undefined = 3
atexit.register(lambda: print("end", x))
print(sys.argv, sys.path[0], "tensorflow" in sys.modules)
print(__name__, __file__, __package__, __spec__ is None)
print(sys.modules["__main__"].x, type(pickle.loads(pickle.dumps(A()))).__module__)
print(helper.NAME, helper.__file__)
""",
    "exit with a code": "import sys; sys.exit(7)",
    "exit": "import sys; sys.exit()",
    "exit with a text": "import sys; sys.exit('no such data')",
    "error": "def f():\n    raise KeyError('x')\n\n\nf()",
    "syntax error": "print('a'\nx = = 3",
    "interrupt": "raise KeyboardInterrupt",
    "encoding": "# -*- coding: latin-1 -*-\nprint(ascii('\xe9'))",
    "excepthook": (
        "import sys\nsys.excepthook = lambda kind, error, trace: print(kind, "
        "trace.tb_frame.f_code.co_name)\n1 / 0"
    ),
}


@pytest.mark.parametrize("case", PROGRAMS)
def test_runs_a_script_as_python_does(script, case):
    script("NAME = 'helper of the script'", "helper.py")
    encoding = "latin-1" if case == "encoding" else "utf-8"
    path = script("")
    path.write_bytes(PROGRAMS[case].encode(encoding))
    arguments = [str(path), "--epochs", "3", "-x", "--", "a b"]
    python, ours = start(arguments), run_tf_lso("run", *arguments)
    if case == "interrupt":  # the signal itself ends Python, but not tf-lso
        assert ours.returncode in (python.returncode, 128 + signal.SIGINT)
    else:
        assert ours.returncode == python.returncode
    assert ours.stdout == python.stdout
    assert without_marks(ours.stderr) == without_marks(python.stderr)


@pytest.mark.parametrize("program", [["-m", "pkg.train"], ["pkg"], ["app.pyz"]])
def test_runs_a_module_a_directory_and_an_archive_as_python_does(
    script, tmp_path, program
):
    text = "import sys; print(__name__, __package__, sys.argv)"
    for name in ("train", "__main__"):
        script(text, f"pkg/{name}.py")
    script("", "pkg/__init__.py")
    with zipfile.ZipFile(tmp_path / "app.pyz", "w") as file:
        file.writestr("__main__.py", text)
    python = start([*program, "--a", "1"], tmp_path)
    ours = run_tf_lso("run", *program, "--a", "1", cwd=tmp_path)
    assert ours.stdout == python.stdout != ""
    assert ours.returncode == 0


def test_the_installed_command_finds_a_module_in_the_working_directory(
    script, tmp_path
):
    """Its `sys.path` begins with the folder of the command, and not with that directory."""
    script("print('found')")
    command = "import sys; sys.path[0] = '/'; from tf_lso import cli; cli.main({})"
    done = start(["-c", command.format(["run", "-m", "train"])], tmp_path)
    assert done.stdout == "found\n", done.stderr


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("train.ipynb", ["'train.ipynb' is a notebook", "install(like=", "nbconvert"]),
        ("src", ["'src' is a folder without a file __main__.py", "tf-lso run -m"]),
        ("none.py", ["can't open 'none.py': no such file"]),
    ],
)
def test_what_is_no_program_is_refused(capsys, tmp_path, monkeypatch, path, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.ipynb").write_text('{"cells": [], "metadata": null}')
    (tmp_path / "src").mkdir()
    assert cli.main(["run", path]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("tf-lso run: ") and printed.count("\n") == 1
    assert all(word in printed for word in words)


@pytest.mark.parametrize(
    ("before", "option"),
    [([], ["--like", "2.4"]), ([], ["--like=2.4"]), (["--like", "2.12"], ["--like=a"])],
)
def test_an_option_behind_the_script_goes_to_the_script_with_a_hint(
    script, before, option
):
    path = script("import sys; print(sys.argv[1:])")
    done = run_tf_lso("run", *before, path, *option)
    assert (done.returncode, done.stdout) == (0, f"{option}\n")
    hint = f"write it first: `tf-lso run --like VERSION {path}`"
    assert (hint in done.stderr) == (not before)


@pytest.mark.slow
@needs_tf_keras
def test_a_program_gets_the_old_names_and_its_own_environment(script):
    path = script("""
        import os
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
        os.environ["TF_USE_LEGACY_KERAS"] = "1"
        from tensorflow.keras.mixed_precision import experimental as mp
        import tensorflow as tf
        opt = mp.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), 128)
        print(opt.loss_scale().numpy(), tf.keras.Model.__module__.split(".")[0])
        if opt.loss_scale() > 1:
            raise SystemExit(3)
    """)
    done = run_tf_lso("run", path)
    assert done.stdout == "128.0 tf_keras\n"
    assert done.returncode == 3


@pytest.mark.parametrize(
    "first",
    [
        "from tensorflow import keras",
        pytest.param("import tf_keras", marks=[pytest.mark.slow, needs_tf_keras]),
    ],
)
def test_the_old_names_exist_whatever_is_imported_first(script, first):
    path = script(f"""
        {first}
        from tensorflow.keras.mixed_precision.experimental import Policy
        print(Policy("mixed_float16").loss_scale.numpy())
    """)
    done = run_tf_lso("run", path)
    assert done.stdout == "32768.0\n", done.stderr


def test_the_traceback_of_an_error_begins_with_the_program(script):
    path = script("""
        import tensorflow as tf
        opt = tf.keras.mixed_precision.LossScaleOptimizer(
            tf.keras.optimizers.SGD(), "dynamic")
    """)
    done = run_tf_lso("run", path, by=preloaded.run)
    assert done.returncode == 1
    assert "'dynamic' must be a bool" in done.stderr
    frames = [line for line in done.stderr.splitlines() if line.startswith("  File")]
    assert str(path) in frames[0]  # the first frame is the program's


@pytest.mark.slow
def test_child_processes_of_a_program_have_the_old_names(script):
    path = script("""
        import multiprocessing
        import sys

        def work():
            from tensorflow.keras.mixed_precision import experimental
            print(experimental.Policy("float16", loss_scale=8).loss_scale.numpy())

        if __name__ == "__main__":
            process = multiprocessing.get_context("spawn").Process(target=work)
            process.start()
            process.join()
            sys.exit(process.exitcode)
    """)
    done = run_tf_lso("run", path)
    assert (done.returncode, done.stdout) == (0, "8.0\n"), done.stderr


def test_the_sitecustomize_of_the_environment_still_runs(script, tmp_path):
    script("print('sitecustomize runs')\nown = 3", "site/sitecustomize.py")
    child = "import sitecustomize, sys; print(sitecustomize.own, *sys.modules)"
    path = script(f"""
        import subprocess
        import sys
        subprocess.run([sys.executable, "-c", {child!r}])
    """)
    folders = os.pathsep.join([str(ROOT), str(tmp_path / "site")])
    done = run_tf_lso("run", path, PYTHONPATH=folders)
    # In the child process, that of tf_lso runs too.
    *lines, last = done.stdout.splitlines()
    assert lines == ["sitecustomize runs", "sitecustomize runs"], done.stderr
    own, *modules = last.split()
    assert own == "3"
    assert "tf_lso.install" in modules


def test_an_interrupt_ends_the_program(script):
    path = script("import time\nprint('up', flush=True)\ntime.sleep(60)")
    with subprocess.Popen(
        [sys.executable, "-m", "tf_lso", "run", str(path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
        # A shell makes background processes ignore SIGINT, and child processes inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert process.stdout.readline() == "up\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.wait(HANGS_AFTER) in (-signal.SIGINT, 128 + signal.SIGINT)


@pytest.mark.parametrize(
    ("command", "ending"), [("check", ""), ("migrate", "; no file is half written")]
)
def test_an_interrupt_ends_a_command_with_one_line(
    command, ending, monkeypatch, capsys
):
    interrupted = mock.Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr(reading_files, "examine", interrupted)
    assert cli.main([command, __file__]) == 130
    assert capsys.readouterr() == ("", f"tf-lso {command}: interrupted{ending}\n")


def test_check_ends_silently_if_its_reader_closes_the_pipe(script):
    path = script("import tensorflow as tf\ntf.train.experimental.LossScale\n" * 99)
    reader, pipe = os.pipe()
    os.close(reader)
    done = run_tf_lso("check", path, stdout=pipe)
    os.close(pipe)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_a_patch_that_was_written_under_an_ascii_locale_applies(script, tmp_path):
    path = script("# Größe\nimport tensorflow as tf\ntf.train.experimental.LossScale\n")
    ascii_ = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    with open(tmp_path / "a.patch", "w") as patch:
        done = run_tf_lso("migrate", path.name, cwd=tmp_path, stdout=patch, **ascii_)
    assert done.returncode == 0
    subprocess.run(["git", "apply", "a.patch"], cwd=tmp_path, check=True)
    changed = path.read_text(encoding="utf-8")
    assert "# Größe\n" in changed and "\ntf_lso.train.experimental" in changed


def run_to_exit(capsys, *arguments):
    """Return the exit code of `tf-lso`, its output and its error output."""
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    return end.value.code, *capsys.readouterr()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["run"], ["tf-lso run", "examples:"]),
        (["check"], ["without running them", "exit codes:", "check --like 2.4"]),
    ],
)
def test_the_help_explains_a_command(capsys, command, words):
    code, output, _ = run_to_exit(capsys, *command, "--help")
    assert code == 0
    assert all(word in output for word in words)


def test_a_command_runs_without_an_output(monkeypatch):
    """`sys.stdout` is None under pythonw, for example."""
    monkeypatch.setattr(sys, "stdout", None)
    assert cli.main(["help", "stuck"]) == 0


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_printed(capsys, option):
    code, output, _ = run_to_exit(capsys, option)
    assert (code, output) == (0, f"tf-lso {__version__}\n")


def test_without_arguments_the_help_is_printed(capsys):
    assert cli.main([]) == 0
    assert capsys.readouterr() == (run_to_exit(capsys, "--help")[1], "")


@pytest.mark.parametrize(
    ("command", "usage", "suggestion"),
    [
        (["run"], "usage: tf-lso run", "examples in --help"),
        (["run", "-m"], "usage: tf-lso run", "name of a module"),
        (["rum", "train.py"], "usage: tf-lso [-h]", "Did you mean `run`?"),
        ([__file__], "usage: tf-lso [-h]", f"`tf-lso run {__file__}`"),
        (["migrate", "--wirte", "a.py"], "usage: tf-lso migrate", "`--write`?"),
        (["check", "--lik=2.4x", "a.py"], "usage: tf-lso check", "--like"),
        (["help", "--nosuch"], "usage: tf-lso help", "arguments: --nosuch."),
    ],
)
def test_misuse_is_refused_with_the_usage_of_its_command(
    capsys, command, usage, suggestion
):
    code, _, error = run_to_exit(capsys, *command)
    assert code == 2
    assert error.startswith(usage)
    assert suggestion in error


def run_without_tensorflow(*arguments):
    main = f"from tf_lso import cli; sys.exit(cli.main({arguments!r}))"
    return start(["-c", hiding("tensorflow", "keras") + main])


@pytest.mark.parametrize(
    "program", ["import tensorflow as tf", "import tf_lso\ntf_lso.install()"]
)
def test_without_tensorflow_one_line_says_what_to_install(script, program):
    done = run_without_tensorflow("run", str(script(program)))
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("tf-lso run: ")
    assert "TensorFlow, which is not installed" in line
    assert "pip install 'tf-lso[tensorflow]'" in line


def test_a_program_that_needs_no_tensorflow_runs_without_it(script):
    program = script("""
        try:
            import tensorflow as tf
        except ImportError:
            print("no TensorFlow here")
        import no_such_module
    """)
    done = run_without_tensorflow("run", str(program))
    assert (done.returncode, done.stdout) == (1, "no TensorFlow here\n")
    assert done.stderr.endswith("Error: No module named 'no_such_module'\n")
