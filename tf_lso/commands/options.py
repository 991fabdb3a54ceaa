"""The arguments that `tf-lso check` and `tf-lso migrate` have in common."""

import argparse
import dataclasses
import importlib.metadata

from tf_lso.names import targets
from tf_lso.names.targets import NEWEST, TARGETS, Target
from tf_lso.source.renaming import Options
from tf_lso.source.rules import RULES


def add_shared(parser: argparse.ArgumentParser) -> None:
    """Add what to read, which rules count, and for which Keras."""
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="a file, or a folder to look for .py, .pyw and .ipynb files in; hidden "
        "folders, virtual environments, installed packages and what git ignores are "
        "left out",
    )
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
    parser.set_defaults(parser=parser)


def chosen(args: argparse.Namespace) -> Options:
    """Return the `Options` of a command's arguments."""
    given = vars(args)
    fields = (field.name for field in dataclasses.fields(Options))
    return Options(**{name: given[name] for name in fields if name in given})


def target(version: str) -> Target:
    """Return the target of a version such as 2.15 or 2.15.1."""
    known = _known(version)
    if known is None:
        raise argparse.ArgumentTypeError(
            f"tf_lso does not know TensorFlow {version!r}; use one of {', '.join(TARGETS)}"
        )
    return known


def installed() -> Target | None:
    """Return the installed TensorFlow, without importing it.

    None stands for a TensorFlow that is not supported, or not there.
    """
    owners = importlib.metadata.packages_distributions().get("tensorflow", [])
    versions = map(importlib.metadata.version, owners)
    return next(filter(None, map(_known, versions)), None)


def _known(version: str) -> Target | None:
    return TARGETS.get(".".join(version.split(".")[:2]))


def _like(version: str) -> str:
    known = targets.minor(version)
    if known is None or not (2, 0) <= known <= (targets.minor(NEWEST.version) or known):
        raise argparse.ArgumentTypeError(
            f"must be a version of TensorFlow from 2.0 to {NEWEST.version}, such as 2.4, "
            f"but got: {version!r}"
        )
    return f"{known[0]}.{known[1]}"


def _rules(text: str) -> tuple[str, ...]:
    chosen = tuple(part.strip() for part in text.split(",") if part.strip())
    for part in chosen:
        if not any(rule.startswith(part) for rule in RULES):
            raise argparse.ArgumentTypeError(
                f"there is no rule {part!r}; the rules are {', '.join(RULES)}"
            )
    return chosen
