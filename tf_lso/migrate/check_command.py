"""Define the command `tf-lso check`, which prints the old names that programs use."""

import argparse

from tf_lso.migrate import shared_arguments

SUMMARY = "list the uses of the legacy loss-scaling API, and which of them break"
DESCRIPTION = """\
Reads Python files and notebooks without running them, and lists each use of
the loss-scaling API of tf.keras 2.0-2.15. The list says where the use is, what
happens on today's TensorFlow, and how `tf-lso migrate` changes it. The command
needs LibCST (pip install 'tf-lso[migrate]') but not TensorFlow.

A use trains wrong silently, breaks, is unsure (only a run can show it), or
works. Uses that work are printed only with --verbose. A use is guarded if the
program handles it by an except clause or by a test of the version or of an
attribute. A comment `# tf-lso: ignore[LSO101]` on its line silences it.
"""
EPILOG = """\
exit codes:
  0  nothing would break
  1  something would break or train wrong
  2  something could not be read or parsed; everything else was checked

examples:
  tf-lso check                               the current folder
  tf-lso check train.py notebooks/
  tf-lso check --like 2.4 src                with the Keras of `tf-lso run --like 2.4`
  tf-lso check --select LSO101,LSO104 src
  tf-lso check --format json src > found.json
  git show main:train.py | tf-lso check -
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared_arguments.add(parser)
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="the format of the report; text is the default, and json is one object",
    )
    parser.add_argument(
        "--exit-zero",
        action="store_true",
        help="exit with 0 even if something would break",
    )


def run(args: argparse.Namespace) -> int:
    if shared_arguments.explained(args):
        return 0
    selected = shared_arguments.selected(args)
    if selected is None:
        return shared_arguments.NOTHING_READ
    from tf_lso.migrate import output, reading_files

    outcome = reading_files.check(args.paths, selected)
    write = output.check_json if args.format == "json" else output.check_text
    print(write(outcome, args.verbose), end="")
    code = outcome.exit_code
    return 0 if args.exit_zero and code == 1 else code
