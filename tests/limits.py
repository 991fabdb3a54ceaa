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


def _limit(text):
    """A limit, from the part of `limits.md` that begins with its reason."""
    reason, options, bare = re.fullmatch(
        r"(.*?)\n\n((?:- .*\n)+)\n```py\n(.*?)```\n*", text, re.DOTALL
    ).groups()
    options = re.findall(r"^- (\w+): (.*)$", options, re.MULTILINE)
    (keras,), (raises,) = (
        [v for k, v in options if k == n] for n in ("keras", "raises")
    )
    tests = tuple(value for key, value in options if key == "test")
    return Limit(tuple(keras.split(", ")), tests, reason, bare, raises)


_TEXT = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
LIMITS = tuple(map(_limit, re.split(r"^## ", _TEXT, flags=re.MULTILINE)[1:]))


def here(test):
    """The limit by which a test, as pytest names it, fails here; or None."""
    for limit in LIMITS:
        if KERAS in limit.keras and test in limit.tests:
            return limit
    return None
