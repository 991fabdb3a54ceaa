"""Run a program as Python would, and let the program use the old names."""

import argparse
import os
import runpy
import shlex
import signal
import sys
import types
from collections.abc import Callable

from tf_lso.frameworks import environment
from tf_lso.install import hints, import_hooks, install
from tf_lso.install import like as like_lib

SUMMARY = "run a program with the old names in place"
DESCRIPTION = """\
Run a program as `python` would, with every old loss-scaling name in place.

The program needs no change. With --like it also gets the Keras of its time, so that it
behaves as it did then. One line at the top of its own file does the same:

    import tf_lso; tf_lso.install(like="2.4")
"""
EPILOG = """\
examples:
  tf-lso run --like 2.4 train.py          with the Keras that TensorFlow 2.4 had
  tf-lso run train.py --epochs 3          on Keras 3, with the script's own arguments
  tf-lso run -m mypackage.train --gpus 2  a module, as `python -m` does

The exit code is the program's.
"""

_RUNNERS = (__file__, runpy.__file__, "<frozen runpy>")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options = "[--like VERSION] [--no-import-keras]"
    parser.usage = f"tf-lso run {options} (SCRIPT | -m MODULE) [ARGS ...]"
    parser.add_argument(
        "--like",
        metavar="VERSION",
        help="version of the TensorFlow that the program was written for, such as 2.4: "
        "tf.keras becomes the Keras of that version, and up to 2.10 its optimizers are "
        "the legacy ones; by default the Keras that TensorFlow uses",
    )
    parser.add_argument(
        "--no-import-keras",
        dest="import_keras",
        action="store_false",
        help="with --like up to 2.15: `import keras` stays Keras 3, while tf.keras is "
        "Keras 2; for programs with a library that needs Keras 3",
    )
    parser.add_argument(
        "-m",
        dest="module",
        nargs=argparse.REMAINDER,
        metavar="MODULE",
        help="run a module as a script, as `python -m` does",
    )
    parser.add_argument(
        "program",
        nargs=argparse.REMAINDER,
        metavar="SCRIPT",
        help="the script, and its arguments",
    )
    parser.set_defaults(parser=parser)


def run(args: argparse.Namespace) -> int:
    """Run the script or module as `__main__`, and return its exit code.

    The old names are installed when the program first imports TensorFlow or Keras. So the
    program can still set environment variables before this import.
    """
    like, module = args.like, args.module is not None
    arguments: list[str] = args.module if module else args.program
    if like is not None:
        try:
            like_lib.choose(like, args.import_keras)
        except (ImportError, ValueError) as error:
            args.parser.error(f"argument --like: {error}")
        os.environ[like_lib.VARIABLE] = like
        os.environ[like_lib.IMPORT_KERAS] = str(int(args.import_keras))
    if not arguments:
        args.parser.error(
            "argument -m: expected the name of a module"
            if module
            else "the script to run is missing; see the examples in --help"
        )
    refused = None if module else _refused(arguments[0])
    if refused:
        print(f"tf-lso run: {refused}", file=sys.stderr)
        return 2
    command = shlex.join(["-m", *arguments] if module else arguments)
    _warn_about_order(arguments, like)

    import_hooks.after_import_of_frameworks(
        lambda: install(like=like, import_keras=args.import_keras)
    )
    # Python processes that the program starts get the old names too.
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "child_processes")
    paths = [folder, os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    sys.argv[:] = arguments
    return _exit_code_of(_run_module if module else _run_script, command)


def _refused(path: str) -> str | None:
    """Return why a path cannot be run and what to do, or None."""
    if not os.path.exists(path):
        return f"can't open {path!r}: no such file"
    if path.endswith(".ipynb"):
        return (
            f"{path!r} is a notebook, and Python runs only scripts. Put `import tf_lso; "
            'tf_lso.install(like="2.4")` into its first cell, above all imports of '
            "TensorFlow and Keras, or convert it to a script: `jupyter nbconvert --to script "
            f"{shlex.quote(path)}`"
        )
    if os.path.isdir(path) and not os.path.exists(os.path.join(path, "__main__.py")):
        return (
            f"{path!r} is a folder without a file __main__.py. Name the script to run, or "
            "a module: `tf-lso run -m MODULE`"
        )
    return None


def _warn_about_order(arguments: list[str], like: str | None) -> None:
    found = [one for one in arguments[1:] if one.partition("=")[0] == "--like"]
    if found and like is None:
        print(
            f"tf-lso run: {found[0]} comes after {arguments[0]!r}, so the program gets "
            "it. If it is meant for tf-lso, write it first: `tf-lso run --like VERSION "
            f"{shlex.quote(arguments[0])}`",
            file=sys.stderr,
        )


def _exit_code_of(run_main: Callable[[str], None], command: str) -> int:
    try:
        run_main(sys.argv[0])
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        # As Python itself does after `sys.exit("message")`.
        print(end.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt as error:
        _show(error)
        return 128 + signal.SIGINT
    except BaseException as error:
        if isinstance(error, ImportError) and error.name == "tensorflow":
            print(f"tf-lso run: {environment.MISSING}", file=sys.stderr)
            return 2
        _show(error)
        line = hints.hint(error, command)
        if line is not None:
            print(line, file=sys.stderr)
        return 1
    return 0


def _run_script(path: str) -> None:
    if os.path.isdir(path) or path.endswith((".zip", ".pyz")):
        sys.path.insert(0, path)
        runpy.run_path(path, run_name="__main__")
        return
    path = os.path.abspath(path)
    with open(path, "rb") as file:
        source = file.read()
    main = types.ModuleType("__main__")
    main.__file__ = path
    vars(main)["__builtins__"] = __builtins__
    # The module stays after the program has ended, because threads and functions registered by
    # `atexit` may still use it.
    sys.modules["__main__"] = main
    sys.path[0] = os.path.dirname(path)
    exec(compile(source, path, "exec"), vars(main))


def _run_module(name: str) -> None:
    sys.path[0] = os.getcwd()
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _show(error: BaseException) -> None:
    """Print a traceback that begins with the program's own frames."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in _RUNNERS:
        trace = trace.tb_next
    if isinstance(error, SyntaxError):
        trace = None
    sys.excepthook(type(error), error.with_traceback(trace), trace)
