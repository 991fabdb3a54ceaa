"""The command `tf-lso check`: prints what is found in programs."""

import argparse

from tf_lso import help
from tf_lso.commands import options, report
from tf_lso.commands.options import installed
from tf_lso.commands.programs import check, migrate
from tf_lso.names.targets import NEWEST, TARGETS
from tf_lso.source.rules import RULES

_FORMATS = {
    "text": report.check_text,
    "json": report.as_json,
    "github": report.github,
}
SUMMARY = "list the uses of the legacy loss-scaling API, and which of them break"
DESCRIPTION = """\
Reads Python files and notebooks without running them, and lists each use of
the loss-scaling API of tf.keras 2.0-2.15: file, line, rule, what happens on
the TensorFlow that --target names, and what tf_lso does about it. Needs no
TensorFlow.

Each use is one of
  trains wrong, silently   a guard passes over Keras 3's optimizer: the loss is not
                           scaled, but the gradients are divided by the scale
  breaks                   fails, or does something else
  works                    works as it did
  unsure                   only a run can tell
A use is guarded if the program takes care of it: by an except clause, by hasattr, by
a test of the version, or by tf_lso.install() before it. A comment
`# tf-lso: ignore[LSO101]` on its line silences it.
"""
EPILOG = """\
exit codes:
  0  nothing would break
  1  something would break, or train wrong
  2  something could not be read; the rest was checked all the same

examples:
  tf-lso check train.py notebooks/
  tf-lso check --target 2.15 src             before the upgrade to 2.16 and later
  tf-lso check --like 2.4 src                what `tf-lso run --like 2.4` would do
  tf-lso check --fix src                     the same as tf-lso migrate --write src
  tf-lso check --explain LSO106
  tf-lso check --format json src > uses.json
  tf-lso check --format github .             in a workflow: shown in the pull request
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `tf-lso check` to its parser."""
    options.add_shared(parser, _FORMATS)
    parser.add_argument(
        "--target",
        type=options.target,
        metavar="VERSION",
        help=f"the TensorFlow to check for, one of {', '.join(TARGETS)}; default: the "
        "installed one, which is not imported, or the newest if it is none of these",
    )
    parser.add_argument(
        "--fix",
        action="store_true",
        help="write the files with their fixes, as tf-lso migrate --write does",
    )
    parser.add_argument(
        "--explain",
        metavar="RULE",
        choices=RULES,
        help="print what a rule is about, and an example: one of "
        f"{RULES[0]} to {RULES[-1]}",
    )


def run(args: argparse.Namespace) -> int:
    """Run the check, write its report to stdout and return the exit code."""
    if args.explain:
        (entry,) = (e for e in help.entries("rules.md") if e.name == args.explain)
        print(entry.shown())
        return 0
    chosen, target = options.chosen(args), args.target or installed() or NEWEST
    if args.fix:
        outcome = migrate(args.paths, chosen, True, target)
        shown = _FORMATS | {"text": report.migrate_text}
    else:
        outcome, shown = check(args.paths, target, chosen), _FORMATS
    print(shown[args.format](outcome), end="")
    return 2 * bool(outcome.unreadable) if args.fix else outcome.exit_code
