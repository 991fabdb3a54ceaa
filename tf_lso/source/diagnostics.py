"""What is found in a program: one diagnostic for each place, which may carry a fix."""

import dataclasses
from typing import NamedTuple

from tf_lso.source.lookup import BREAKS, LABELS, WRONG, Verdict
from tf_lso.source.reasons import Reason
from tf_lso.source.scopes import Place

FAILURES = (WRONG, BREAKS)
IMPORT, ATTRIBUTE, METHOD, NOTE = "import", "attribute", "method", "note"
CONSTRUCTOR, OTHER = "constructor", "other"


class Diagnostic(NamedTuple):
    """One place of a program that has to do with the old API.

    What follows `verdict` is known when the fixes are planned.
    """

    rule: str  # the id, one of `rules.RULES`
    cell: int | None  # number of the notebook cell, from 1, or None
    line: int  # in the file or cell, from 1
    offset: int  # bytes of the line before it
    kind: str  # one of the words above
    guarded: bool  # whether the program takes care that it does not fail
    verdict: Verdict  # the old name, and what happens
    file: str = ""  # path as it was reached from the command line
    column: int = 1  # in characters, from 1
    code: str = ""  # the source line, stripped
    fix: str | None = None  # what `migrate` does in words, such as the new name
    why_not: Reason | None = None  # why it is left, if `migrate` leaves something to do
    seen: bool = True  # whether `check` tells of it; else `migrate` lists it as left

    @property
    def place(self) -> Place:
        """The position, for sorting."""
        return self.cell or 0, self.line, self.offset

    @property
    def name(self) -> str:
        """The dotted old name, or what else it is about."""
        return self.verdict.name

    @property
    def why(self) -> str:
        """Why it is left as it is, or ""."""
        return self.why_not.why if self.why_not else ""

    @property
    def do(self) -> str:
        """What a person is to do, or ""."""
        return self.why_not.do if self.why_not else ""

    @property
    def fails(self) -> bool:
        """Whether this alone makes the check exit with 1."""
        return self.verdict.status in FAILURES and not self.guarded

    def rank(self) -> tuple[object, ...]:
        """Return the rank. Of several at one position, the first one counts.

        A name stands for all that it is ever bound to. So a path without a replacement is
        often wrong, and comes last. The longer name wins: `getattr(a, "b").c` is about c.
        """
        verdict = self.verdict
        return (
            self.kind == OTHER,
            self.guarded,
            verdict.replacement is None,
            list(LABELS).index(verdict.status),
            -len(verdict.name),
            verdict.name,
            verdict.today,
        )


@dataclasses.dataclass(frozen=True)
class Unreadable:
    """A file or cell that could not be read, and why."""

    file: str
    reason: str
    cell: int | None = None
    line: int | None = None


@dataclasses.dataclass
class Diagnosis:
    """All that is found in one file, and what becomes of it."""

    path: str = ""
    diagnostics: list[Diagnostic] = dataclasses.field(default_factory=list)
    unreadable: list[Unreadable] = dataclasses.field(default_factory=list)
    # Cell -> its new text, of the cells that the fixes change in `changes` places.
    texts: dict[int | None, str] = dataclasses.field(default_factory=dict)
    changes: int = 0
    # Why `tf_lso.install()` is added, or empty.
    installs: list[str] = dataclasses.field(default_factory=list)
    wraps: bool = False  # whether the new program itself wraps optimizers by tf_lso
    old: bytes = b""  # of the file, without its fixes and with them
    new: bytes = b""

    @property
    def left(self) -> list[Diagnostic]:
        """What `migrate` leaves to a person."""
        return [found for found in self.diagnostics if found.why_not]
