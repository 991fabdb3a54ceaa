"""Define the command `tf-lso migrate`, which rewrites old names in programs."""

import argparse
import sys
from typing import TYPE_CHECKING

from tf_lso.migrate import shared_arguments

if TYPE_CHECKING:
    from tf_lso.migrate.reading_files import Outcome

SUMMARY = "rewrite programs from the old loss-scaling names to those of tf_lso"
DESCRIPTION = """\
Rewrites Python files and notebooks from the loss-scaling API of tf.keras
2.0-2.15 to the same names in tf_lso (tf_lso replaces tf). Prints a unified
diff and a summary, and writes files only with --write. The command needs
LibCST (pip install 'tf-lso[migrate]') but not TensorFlow.

It changes only what is certain. For everything else it says where it is, why
it is not changed, and what to do. If new names alone are not enough for a
program, it adds `tf_lso.install()` at the top. A file in which nothing would
break is not changed.
"""
EPILOG = """\
exit codes:
  0  done; with --check or --diff, nothing would change
  1  with --check or --diff, something would change
  2  a file could not be read, parsed or written; all others were migrated

examples:
  tf-lso migrate                              show what would change in this folder
  tf-lso migrate --diff src > migrate.patch   print only the changes, for `git apply`
  tf-lso migrate --write src notebooks        change the files
  tf-lso migrate --check $(git ls-files '*.py')
  tf-lso migrate --write - < old.py > new.py
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared_arguments.add(parser)
    does = parser.add_mutually_exclusive_group()
    does.add_argument(
        "--write",
        action="store_true",
        help="write the files, each in one step; a program from the standard input is "
        "written to the standard output",
    )
    does.add_argument(
        "--check",
        action="store_true",
        help="change nothing, and exit with 1 if something would change",
    )
    does.add_argument(
        "--diff",
        action="store_true",
        help="print only the diff, and exit with 1 if there is one",
    )


def run(args: argparse.Namespace) -> int:
    if shared_arguments.explained(args):
        return 0
    selected = shared_arguments.selected(args)
    if selected is None:
        return shared_arguments.NOTHING_READ
    from tf_lso.migrate import writing

    outcome = writing.migrate(args.paths, selected, args.write)
    _print(args, outcome)
    if outcome.unreadable:
        return 2
    return int((args.check or args.diff) and bool(outcome.changed))


def _print(args: argparse.Namespace, outcome: "Outcome") -> None:
    """Print the report to stdout, or to stderr if stdout gets the migrated program."""
    from tf_lso.migrate import output, reading_files

    if args.diff:
        print(output.diffs(outcome), end="")
        return
    text = output.migrate_text(outcome, args.verbose)
    if not (args.write and reading_files.STDIN in args.paths):
        print(text, end="")
        return
    print(text, end="", file=sys.stderr)
    for file in outcome.files:
        if file.path == reading_files.STDIN:
            sys.stdout.buffer.write(file.new)
