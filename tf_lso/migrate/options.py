"""The arguments that `tf-lso check` and `tf-lso migrate` have in common."""

import argparse
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING

from tf_lso import help
from tf_lso.migrate.findings import RULES
from tf_lso.names import targets

if TYPE_CHECKING:
    from tf_lso.migrate.engine import Options

NOTHING_READ = 2  # the exit code


def add_shared(parser: argparse.ArgumentParser, formats: Collection[str]) -> None:
    """Add what to read, which rules count, for which Keras, and how it is printed."""
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="a file, a folder to look for .py, .pyw and .ipynb files in, or - for the "
        "standard input; hidden folders, virtual environments and installed packages are "
        "not read",
    )
    parser.add_argument(
        "--like",
        type=_like,
        metavar="VERSION",
        help="judge for programs that run by `tf-lso run --like VERSION`, with the Keras "
        "of that TensorFlow",
    )
    parser.add_argument(
        "--select",
        type=_rules,
        action="extend",
        default=[],
        metavar="RULES",
        help="rules, or beginnings of them, with commas between them: only these count",
    )
    parser.add_argument(
        "--explain",
        type=str.upper,
        metavar="RULE",
        choices=RULES,
        help="print what a rule is about, and an example: one of "
        f"{RULES[0]} to {RULES[-1]}",
    )
    parser.add_argument(
        "--format",
        choices=tuple(formats),
        default="text",
        help="text is for people, and the default; json is one object",
    )
    parser.add_argument("--verbose", action="store_true", help="print what works, too")
    parser.set_defaults(parser=parser)


def explained(args: argparse.Namespace) -> bool:
    """Print the entry of the rule that `--explain` names; return whether it names one."""
    if not args.explain:
        return False
    (entry,) = (e for e in help.entries("rules.md") if e.name == args.explain)
    print(entry.shown())
    return True


def chosen(args: argparse.Namespace) -> "Options | None":
    """Return the options of a command, which has to name a path.

    Without LibCST the result is None, after a line that says how to install it.
    """
    if not args.paths:
        args.parser.error("the following arguments are required: PATH")
    try:
        import libcst  # noqa: F401
    except ImportError:
        said = "needs LibCST, which is not installed: pip install 'tf-lso[migrate]'"
        print(f"{args.parser.prog} {said}", file=sys.stderr)
        return None
    from tf_lso.migrate.engine import Options

    return Options(tuple(args.select), args.like or "")


def _like(version: str) -> str:
    known = targets.minor(version)
    if known is None or not (2, 0) <= known <= (targets.minor(targets.NEWEST) or known):
        raise argparse.ArgumentTypeError(
            f"must be a version of TensorFlow from 2.0 to {targets.NEWEST}, such as 2.4, "
            f"but got: {version!r}"
        )
    return f"{known[0]}.{known[1]}"


def _rules(text: str) -> tuple[str, ...]:
    chosen = tuple(part.strip().upper() for part in text.split(",") if part.strip())
    for part in chosen:
        if not any(rule.startswith(part) for rule in RULES):
            raise argparse.ArgumentTypeError(
                f"there is no rule {part!r}; the rules are {', '.join(RULES)}"
            )
    return chosen
