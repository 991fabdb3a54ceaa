"""The command `tf-lso migrate`: its arguments, and running it."""

import argparse
import os
import stat
import sys
from collections.abc import Iterable

from tf_lso import log
from tf_lso.commands import one_file, report
from tf_lso.commands.report import Outcome
from tf_lso.names import targets
from tf_lso.names.targets import NEWEST, TARGETS, TODAY, Target
from tf_lso.source import files, rules
from tf_lso.source.diagnostics import Diagnosis
from tf_lso.source.modules import Placement, placed
from tf_lso.source.renaming import KERAS, LEAST, TF_LSO, Options

_FORMATS = {"text": report.migrate_text, "json": report.migrate_json}
SUMMARY = "rewrite programs from the old loss-scaling names to those of tf_lso"
DESCRIPTION = """\
Rewrites Python files and notebooks from the loss-scaling API of tf.keras 2.0-2.15 to the
same names in tf_lso ("write tf_lso for tf"). Prints a unified diff and a summary, and
changes nothing without --write. Needs no TensorFlow.

    from tensorflow.keras import mixed_precision as mp   # before
    from tf_lso.keras import mixed_precision as mp       # after

    tf.train.experimental.DynamicLossScale()             # before
    tf_lso.train.experimental.DynamicLossScale()         # after

It changes only what is certain. It lists the rest: where, why, what to do.
If a program relies on more than names, such as `optimizer.lr`, it adds
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
  tf-lso migrate --prefer keras --write train.py
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `tf-lso migrate` to its parser."""
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a file, or a folder to look for .py, .pyw and .ipynb files in; hidden "
        "folders, virtual environments, installed packages and what git ignores "
        "are left out",
    )
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
        choices=(LEAST, TF_LSO, KERAS),
        default=LEAST,
        help="where policies go that today's Keras has too: least (the default) leaves "
        "Policy and global_policy, which work as they did, and moves set_global_policy; "
        "tf_lso moves all of them; keras leaves set_global_policy too, by which `compile` "
        "wraps optimizers with Keras's own LossScaleOptimizer",
    )
    add_choices(parser)
    parser.add_argument(
        "--tf-keras",
        action="store_true",
        help="move the LossScaleOptimizer of tf_keras too, which still works as it is",
    )
    parser.add_argument(
        "--no-install",
        action="store_true",
        help="never add tf_lso.install(); list what it would be needed for",
    )
    parser.add_argument(
        "--format",
        choices=tuple(_FORMATS),
        default="text",
        help="text for people and `git apply` (the default), or one JSON object",
    )


def add_choices(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `check`, too: which rules count, and for which Keras."""
    parser.add_argument(
        "--like",
        type=_like,
        metavar="VERSION",
        help="judge for programs that run by `tf-lso run --like VERSION`, with the Keras "
        "of that TensorFlow",
    )
    for name, words in (("select", "only these count"), ("ignore", "these do not")):
        parser.add_argument(
            f"--{name}",
            type=_rules,
            default=(),
            metavar="RULES",
            help=f"rules, or beginnings of them, with commas between them: {words}",
        )


def _like(version: str) -> str:
    known = targets.minor(version)
    newest = targets.minor(list(TARGETS)[-1]) or (2, 0)
    if known is None or not (2, 0) <= known <= newest:
        raise argparse.ArgumentTypeError(
            f"must be a version of TensorFlow from 2.0 to {NEWEST.version}, such as 2.4, "
            f"but got: {version!r}"
        )
    return f"{known[0]}.{known[1]}"


def _rules(text: str) -> tuple[str, ...]:
    chosen = tuple(part.strip() for part in text.split(",") if part.strip())
    for part in chosen:
        if not any(rule.startswith(part) for rule in rules.RULES):
            raise argparse.ArgumentTypeError(
                f"there is no rule {part!r}; the rules are {', '.join(rules.RULES)}"
            )
    return chosen


def run(args: argparse.Namespace) -> int:
    """Run the migration, write its report to stdout and return the exit code."""
    options = Options(
        args.prefer,
        args.tf_keras,
        not args.no_install,
        args.like,
        args.select,
        args.ignore,
    )
    return fix(args.paths, options, TODAY, args.write, args.check, args.format)


def fix(
    paths: Iterable[str],
    options: Options,
    target: Target,
    write: bool,
    check: bool = False,
    form: str = "text",
) -> int:
    """Apply the fixes, write the report to stdout and return the exit code."""
    outcome = migrate(paths, options, write, target)
    if sys.stdout is not None:  # closed by whoever started us
        _FORMATS[form](outcome, sys.stdout)
    return 2 if outcome.unreadable else int(check and bool(outcome.changed))


def migrate(
    paths: Iterable[str],
    options: Options | None = None,
    write: bool = False,
    target: Target = TODAY,
) -> Outcome:
    """Migrate files and folders, in the order given.

    Args:
      paths: iterable of str.
      options: `Options`, by default those of the command line.
      write: whether to change the files.
      target: the TensorFlow to judge for. It does not change what is written.

    Returns:
      An `Outcome`.

    Example:
    >>> from tf_lso.commands import migrate
    >>> migrate.migrate(["no/such/file.py"]).exit_code
    2
    """
    options = options or Options()
    if options.like:
        target = targets.like(options.like, target)
    outcome = Outcome(target, written=write)
    listed: dict[str, str] = {}  # absolute path -> path as given
    for path in paths:
        for file in files.wanted(path, outcome.failed):
            listed.setdefault(os.path.abspath(file), file)
    # Links come first. Once the target is written, the link would have no change.
    ordered = sorted(listed.values(), key=lambda path: not os.path.islink(path))
    shown = log.progress_bar(ordered, "tf-lso migrate", "file")
    found = {path: _examined(path, options, target) for path in shown}
    if any(one.wraps for one in found.values()):
        wraps = Placement(wraps=True)
        for path, one in found.items():
            if not one.wraps and one.diagnostics:
                found[path] = _examined(path, options, target, wraps)
    needing = {path: one.installs for path, one in found.items() if one.installs}
    for path, placement in placed(ordered, needing).items():
        found[path] = _examined(path, options, target, placement)
    for one in found.values():
        outcome.add(one_file.fix(one, write))
    return outcome


def _examined(
    path: str, options: Options, target: Target, placement: Placement | None = None
) -> Diagnosis:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe would wait for its writer
            return one_file.alone(path, "is no regular file")
        return one_file.examine(path, options, target, placement)
    except OSError as error:
        return one_file.alone(path, f"cannot be opened: {files.reason(error)}")
    except Exception as error:  # a defect of ours must not stop the other files
        said = f"tf-lso fails on it: {type(error).__name__}: {error}"
        return one_file.alone(path, said)
