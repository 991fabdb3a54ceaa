"""What `check` and `migrate` ask alike: which rules count, and for which Keras."""

import argparse
import contextlib
import gc
import warnings
from collections.abc import Iterator

from tf_lso.names import targets
from tf_lso.names.targets import NEWEST, TARGETS
from tf_lso.source import rules


def add_choices(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say which rules count, and for which Keras."""
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


@contextlib.contextmanager
def quickly() -> Iterator[None]:
    """Parse without the garbage collector, and without warnings about the programs.

    The trees have no cycles. Without the collector, parsing is a fifth faster.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if collects:
            gc.enable()
