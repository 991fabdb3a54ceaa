"""The command `tf-lso check`: prints what is found in programs."""

import argparse
import contextlib
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable

from tf_lso import log
from tf_lso.commands import migrate, one_file, report
from tf_lso.commands.report import Outcome
from tf_lso.names import targets
from tf_lso.names.targets import NEWEST, TARGETS, TODAY, Target
from tf_lso.source import files, rules
from tf_lso.source.renaming import Options

_FORMATS = {
    "text": report.check_text,
    "json": report.check_json,
    "github": report.github,
}
SUMMARY = "list the uses of the legacy loss-scaling API, and which of them break"
DESCRIPTION = """\
Reads Python files and notebooks without running them, and lists each use of the
loss-scaling API of tf.keras 2.0-2.15: file, line, what happens on the TensorFlow
that --target names, and what tf_lso does about it. Needs no TensorFlow.

Each use is one of
  trains wrong, silently
           runs without an error, but computes something else. A `hasattr`, a
           `getattr` or an except clause passes over Keras 3's optimizer. The loss is
           not scaled, but the gradients are divided by the scale
  breaks   fails, or does something else
  works    works as it did
  unsure   only a run can tell
A use is guarded if the program takes care of it: by an except clause, by hasattr, by
a test of the version, or by tf_lso.install() before it.

Each use has the id of a rule, such as LSO101. A comment `# tf-lso: ignore[LSO101]` on
its line silences it.
"""
EPILOG = """\
exit codes:
  0  nothing would break
  1  something would break, or train wrong
  2  something could not be read; the rest was checked all the same

examples:
  tf-lso check train.py notebooks/
  tf-lso check --target 2.15 src             before the upgrade to 2.16 and later
  tf-lso check --target 2.21 src             and after it
  tf-lso check --like 2.4 src                what `tf-lso run --like 2.4` would do
  tf-lso check --fix src                     the same as tf-lso migrate --write src
  tf-lso check --explain LSO106
  tf-lso check --format json src > uses.json
  tf-lso check --format github .             in a workflow: shown in the pull request
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `tf-lso check` to its parser."""
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="a file, or a folder to look for .py, .pyw and .ipynb files in; hidden "
        "folders, virtual environments and installed packages are left out",
    )
    parser.add_argument(
        "--target",
        type=_target,
        metavar="VERSION",
        help=f"the TensorFlow to check for, one of {', '.join(TARGETS)}; default: the "
        "installed one, which is not imported, or the newest if it is none of these",
    )
    migrate.add_choices(parser)
    parser.add_argument(
        "--fix",
        action="store_true",
        help="write the files with their fixes, as tf-lso migrate --write does",
    )
    parser.add_argument(
        "--explain",
        metavar="RULE",
        choices=tuple(rules.RULES),
        help="print what a rule is about, and an example: one of "
        f"{next(iter(rules.RULES))} to {list(rules.RULES)[-1]}",
    )
    parser.add_argument(
        "--format",
        choices=tuple(_FORMATS),
        default="text",
        help="text for people (the default), one JSON object, or annotations of a GitHub "
        "workflow",
    )
    parser.set_defaults(parser=parser)


def run(args: argparse.Namespace) -> int:
    """Run the check, write its report to stdout and return the exit code."""
    if args.explain:
        print(rules.explained(args.explain), end="")
        return 0
    if not args.paths:
        args.parser.error("the following arguments are required: PATH")
    options = Options(select=args.select, ignore=args.ignore, like=args.like)
    target = args.target or installed() or NEWEST
    if args.fix:
        return migrate.fix(args.paths, options, target, write=True)
    outcome = check(args.paths, target, options)
    _FORMATS[args.format](outcome, sys.stdout)
    return outcome.exit_code


def _target(version: str) -> Target:
    """Return the target of a version such as 2.15 or 2.15.1."""
    target = _known(version)
    if target is None:
        raise argparse.ArgumentTypeError(
            f"tf_lso does not know TensorFlow {version!r}; use one of {', '.join(TARGETS)}"
        )
    return target


def installed() -> Target | None:
    """Return the installed TensorFlow, without importing it.

    None stands for a TensorFlow that is not supported, or not there.
    """
    if importlib.util.find_spec("tensorflow") is None:
        return None
    for name in ("tensorflow", "tensorflow-cpu"):  # others take longer to find
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return _known(importlib.metadata.version(name))
    others = importlib.metadata.packages_distributions().get("tensorflow", [])
    found = (_known(importlib.metadata.version(name)) for name in others)
    return next(filter(None, found), None)


def _known(version: str) -> Target | None:
    return TARGETS.get(".".join(version.split(".")[:2]))


def check(
    paths: Iterable[str], target: Target = TODAY, options: Options | None = None
) -> Outcome:
    """Return what is found in the files and folders, in the order given.

    Args:
      paths: files and folders.
      target: the TensorFlow that they are to run on, by default what those with Keras 3
        have in common.
      options: the `Options`.

    Example:
    >>> from tf_lso.commands import check
    >>> check.check(["no/such/file.py"]).exit_code
    2
    """
    options = options or Options()
    if options.like:
        target = targets.like(options.like, target)
    outcome = Outcome(target)
    listed = _listed(paths, outcome.failed)
    for path in log.progress_bar(listed, "tf-lso check", "file"):
        outcome.add(one_file.examine(path, options, target, writes=False))
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
