"""The command `tf-lso check`: its arguments, and running it."""

import argparse
import gc
import sys
import warnings
from collections.abc import Iterable

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
           goes on today without a word, and computes something else: where `hasattr`,
           `getattr` or an except clause passes over Keras 3's optimizer, the loss is
           not scaled, and its gradients are divided by the scale all the same
  breaks   fails today, or does something else
  works    still works
  unsure   depends on what only a run can tell
A use is guarded where the program takes care of it: by an except clause, by hasattr,
by a test of the version, or by tf_lso.install() before it.
"""
EPILOG = """\
exit codes:
  0  nothing would break
  1  something would break, or train wrong
  2  something could not be read; the rest was checked all the same

examples:
  tf-lso check train.py notebooks/
  tf-lso check --format json src > uses.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments and the help text of `tf-lso check` to its parser."""
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
        help="text for people (the default), or one JSON object",
    )


def run(args: argparse.Namespace) -> int:
    """Runs the check, writes its report to stdout and returns the exit code."""
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
    listed: dict[str, None] = {}

    def failed(path: str, error: Exception) -> None:
        why = sources.reason(error)
        outcome.unreadable.append(Unreadable(path, None, None, why))

    for path in paths:
        listed.update(dict.fromkeys(files.find(path, failed)))
    # The trees have no cycles: without the collector's walks over them, parsing takes
    # a fifth less time.
    collects = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what compiling says of the programs
            for path in progress.bar(list(listed), "tf-lso check", "file"):
                findings, unreadable = one_file.check(path)
                outcome.files += 1
                outcome.findings += findings
                outcome.unreadable += unreadable
    finally:
        if collects:
            gc.enable()
    return outcome
