"""What a supported Keras itself cannot do, so that a test fails there: `limits.md`.

Such a test is expected to fail, strictly and with the reason, beside that Keras only.
noxfile.py counts it as a limit. `test_limits.py` runs `bare`, a program without tf_lso:
it fails beside that Keras, and beside no other of its generation.
"""

import re
from pathlib import Path
from typing import NamedTuple

from tests.generation import KERAS


class Limit(NamedTuple):
    """One limit."""

    keras: tuple[str, ...]  # minor versions of the package, of those of noxfile.py
    tests: tuple[str, ...]  # those that fail by it, as pytest names them
    reason: str  # what that Keras cannot do, as the table of supported versions has it
    bare: str  # a program that shows it without tf_lso
    raises: str  # a part of what that program ends with


def sections(path):
    """Yield heading, options and program of each section of the page beside a module."""
    text = Path(path).with_suffix(".md").read_text(encoding="utf-8")
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, options, program = re.fullmatch(
            r"(.*?)\n\n((?:- .*\n)*)\n*```py\n(.*?)```\n*", section, re.DOTALL
        ).groups()
        options = re.findall(r"^- (\w+)(?:: (.*))?$", options, re.MULTILINE)
        yield heading, options, program


def _limit(reason, options, bare):
    (keras,), (raises,), tests = (
        [value for key, value in options if key == name]
        for name in ("keras", "raises", "test")
    )
    return Limit(tuple(keras.split(", ")), tuple(tests), reason, bare, raises)


LIMITS = tuple(_limit(*section) for section in sections(__file__))


def here(test):
    """The limit by which a test, as pytest names it, fails here; or None."""
    of_test = (limit for limit in LIMITS if test in limit.tests)
    return next((limit for limit in of_test if KERAS in limit.keras), None)
