"""The command `tf-lso migrate`: applies the fixes of what is found in programs."""

import argparse

from tf_lso.commands import options, report
from tf_lso.commands.programs import migrate
from tf_lso.source.renaming import LEAST, TF_LSO

_FORMATS = {"text": report.migrate_text, "json": report.as_json}
SUMMARY = "rewrite programs from the old loss-scaling names to those of tf_lso"
DESCRIPTION = """\
Rewrites Python files and notebooks from the loss-scaling API of tf.keras
2.0-2.15 to the same names in tf_lso ("write tf_lso for tf"). Prints a unified
diff and a summary, and changes nothing without --write. Needs no TensorFlow.

    from tensorflow.keras import mixed_precision as mp   # before
    from tf_lso.keras import mixed_precision as mp       # after

    tf.train.experimental.DynamicLossScale()             # before
    tf_lso.train.experimental.DynamicLossScale()         # after

It changes only what is certain. It lists the rest: where, why, what to do. If
a program relies on more than names, such as `optimizer.lr`, it adds
`tf_lso.install()` at the top.
"""
EPILOG = """\
exit codes:
  0  done; with --check: nothing would change
  1  with --check: something would change
  2  a file could not be read, parsed or written; the others were migrated all the same

examples:
  tf-lso migrate src                      show what would change
  tf-lso migrate src > migrate.patch      the same, for `git apply`
  tf-lso migrate --write src notebooks    change the files
  tf-lso migrate --check $(git ls-files '*.py')
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `tf-lso migrate` to its parser."""
    options.add_shared(parser, _FORMATS)
    does = parser.add_mutually_exclusive_group()
    does.add_argument(
        "--write", action="store_true", help="write the files, each in one step"
    )
    does.add_argument(
        "--check",
        action="store_true",
        help="change nothing, and exit with 1 if something would change",
    )
    parser.add_argument(
        "--prefer",
        choices=(LEAST, TF_LSO),
        default=LEAST,
        help="what to do with the names that work in all versions: least (the default) "
        "leaves Policy and global_policy where their line needs no other change; tf_lso "
        "moves all names",
    )
    parser.add_argument(
        "--no-install",
        dest="install",
        action="store_false",
        help="never add tf_lso.install(); list what it would be needed for",
    )


def run(args: argparse.Namespace) -> int:
    """Run the migration, write its report to stdout and return the exit code."""
    outcome = migrate(args.paths, options.chosen(args), args.write)
    print(_FORMATS[args.format](outcome), end="")
    return 2 if outcome.unreadable else int(args.check and bool(outcome.changed))
