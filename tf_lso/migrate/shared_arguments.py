"""Define the command-line arguments that `tf-lso check` and `tf-lso migrate` share."""

import argparse
import sys
from typing import TYPE_CHECKING

from tf_lso import help
from tf_lso.frameworks import environment
from tf_lso.migrate.findings import RULES
from tf_lso.names import runtimes

if TYPE_CHECKING:
    from tf_lso.migrate.engine import Options

NOTHING_READ = 2  # the exit code of a command that fails before it reads a file


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        nargs="*",
        default=["."],
        metavar="PATH",
        help="a file, a folder with .py, .pyw and .ipynb files, or - for the standard "
        "input; by default the current folder; hidden folders, virtual environments and "
        "installed packages are not read",
    )
    parser.add_argument(
        "--like",
        type=_like,
        metavar="VERSION",
        help="examine the program as for `tf-lso run --like VERSION`, which gives it the "
        "Keras of that TensorFlow",
    )
    parser.add_argument(
        "--select",
        type=_rules,
        action="extend",
        default=[],
        metavar="RULES",
        help="report only these rules: ids, or beginnings of ids, separated by commas",
    )
    parser.add_argument(
        "--explain",
        type=str.upper,
        metavar="RULE",
        choices=RULES,
        help=f"explain a rule with an example; one of {RULES[0]} to {RULES[-1]}",
    )
    parser.add_argument(
        "--verbose", action="store_true", help="also print uses that work"
    )


def explained(args: argparse.Namespace) -> bool:
    """Return whether `--explain` was passed. If so, print the explanation of the rule."""
    if not args.explain:
        return False
    (entry,) = (e for e in help.entries("rules.md") if e.name == args.explain)
    print(entry.shown())
    return True


def selected(args: argparse.Namespace) -> "Options | None":
    """Return the `Options`. Without LibCST, print how to install it and return None."""
    try:
        import libcst  # noqa: F401
    except ImportError:
        error = "needs LibCST, which is not installed: pip install 'tf-lso[migrate]'"
        print(f"tf-lso {args.command} {error}", file=sys.stderr)
        return None
    from tf_lso.migrate.engine import Options

    return Options(tuple(args.select), args.like or "")


def _like(version: str) -> str:
    known = runtimes.minor(version)
    major, minor = newest = max(environment.PAIRS)
    if known is None or not (2, 0) <= known <= newest:
        raise argparse.ArgumentTypeError(
            f"must be a version of TensorFlow from 2.0 to {major}.{minor}, such as 2.4, "
            f"but got: {version!r}"
        )
    return f"{known[0]}.{known[1]}"


def _rules(text: str) -> tuple[str, ...]:
    rules = tuple(part.strip().upper() for part in text.split(",") if part.strip())
    for part in rules:
        if not any(rule.startswith(part) for rule in RULES):
            raise argparse.ArgumentTypeError(
                f"there is no rule {part!r}; the rules are {', '.join(RULES)}"
            )
    return rules
