"""The command `tf-lso check`: its arguments, and running it."""

import argparse
import gc
import os
import sys
import warnings
from collections.abc import Callable, Iterable

from tf_lso import progress
from tf_lso.check import one_file, report
from tf_lso.check.findings import Outcome
from tf_lso.programs import files, sources
from tf_lso.programs.sources import Unreadable

SUMMARY = "list the uses of the legacy loss-scaling API, and which of them break"
DESCRIPTION = """\
Reads Python files and notebooks without running them, and lists each use of the
loss-scaling API of tf.keras 2.0-2.15: file, line, what happens on today's
TensorFlow, and what tf_lso does about it. Needs no TensorFlow.

Each use is one of
  trains wrong, silently
           runs today without an error, but computes something else. A `hasattr`, a
           `getattr` or an except clause passes over Keras 3's optimizer. The loss is
           not scaled, but the gradients are divided by the scale
  breaks   fails today, or does something else
  works    still works
  unsure   only a run can tell
A use is guarded if the program takes care of it: by an except clause, by hasattr, by
a test of the version, or by tf_lso.install() before it.
"""
EPILOG = """\
exit codes:
  0  nothing would break
  1  something would break, or train wrong
  2  something could not be read; the rest was checked all the same

examples:
  tf-lso check train.py notebooks/
  tf-lso check --format json src > uses.json
  tf-lso check --format github .             in a workflow: shown in the pull request
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the help text of `tf-lso check` to its parser."""
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a file, or a directory to look for .py, .pyw and .ipynb files in; hidden "
        "directories, virtual environments and installed packages are left out",
    )
    parser.add_argument(
        "--format",
        choices=tuple(report.FORMATS),
        default="text",
        help="text for people (the default), one JSON object, annotations of a GitHub "
        "workflow, or a SARIF log",
    )


def run(args: argparse.Namespace) -> int:
    """Run the check, write its report to stdout and return the exit code."""
    outcome = check(args.paths)
    report.FORMATS[args.format](outcome, sys.stdout)
    return outcome.exit_code


def check(paths: Iterable[str]) -> Outcome:
    """Return what is found in the files and directories, in the order given.

    Example:
    >>> from tf_lso import check
    >>> check.check(["no/such/file.py"]).exit_code
    2
    """
    outcome = Outcome()

    def failed(path: str, error: Exception) -> None:
        why = sources.reason(error)
        outcome.unreadable.append(Unreadable(path, None, None, why))

    listed = _listed(paths, failed)
    # The trees have no cycles. Without the garbage collector, parsing is a fifth faster.
    collects = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the compiler says about the programs
            for path in progress.bar(listed, "tf-lso check", "file"):
                findings, unreadable = one_file.check(path)
                outcome.files += 1
                outcome.findings += findings
                outcome.unreadable += unreadable
    finally:
        if collects:
            gc.enable()
    return outcome


def _listed(
    paths: Iterable[str], failed: Callable[[str, Exception], None]
) -> list[str]:
    """Return the files, each once. A file's own name goes before links to it."""
    listed: dict[str, str] = {}
    for path in paths:
        for file in files.find(path, failed):
            real = os.path.realpath(file)
            known = listed.setdefault(real, file)
            if os.path.abspath(file) == real != os.path.abspath(known):
                listed[real] = file
    return list(listed.values())
