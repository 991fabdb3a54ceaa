"""What the check reports."""

import dataclasses
from typing import NamedTuple

from tf_lso.names.targets import Target
from tf_lso.source.reading import Unreadable
from tf_lso.source.verdict import BREAKS, LABELS, WRONG, Verdict

FAILURES = (WRONG, BREAKS)
IMPORT, ATTRIBUTE, METHOD, NOTE = "import", "attribute", "method", "note"
CONSTRUCTOR = "constructor"


class Use(NamedTuple):
    """A use, before its file is known. `offset` counts bytes of the line."""

    cell: int | None
    line: int
    offset: int
    kind: str
    guarded: bool
    verdict: Verdict

    @property
    def place(self) -> tuple[int, int, int]:
        """The position, for sorting."""
        return self.cell or 0, self.line, self.offset

    def rank(self) -> tuple[object, ...]:
        """Return the rank. Of several at one position, the first one counts.

        A name stands for all that it is ever bound to. So a path without a replacement is
        often wrong, and comes last. The longer name wins: `getattr(a, "b").c` is about c.
        """
        verdict = self.verdict
        return (
            self.guarded,
            verdict.replacement is None,
            list(LABELS).index(verdict.status),
            -len(verdict.name),
            verdict.name,
            verdict.today,  # the order of sets differs from run to run
        )


@dataclasses.dataclass(frozen=True)
class Finding:
    """One use of the old API at one place."""

    file: str  # path as it was reached from the command line
    cell: int | None  # number of the notebook cell, from 1
    line: int  # in the file or cell, from 1
    column: int  # from 1
    kind: str  # one of the words above
    code: str  # the source line, stripped
    guarded: bool  # whether the program takes care that it does not fail
    verdict: Verdict

    @property
    def fails(self) -> bool:
        """Whether this alone makes the check exit with 1."""
        return self.verdict.status in FAILURES and not self.guarded


@dataclasses.dataclass
class Outcome:
    """All that one run of the check has found on a TensorFlow."""

    target: Target
    files: int = 0
    findings: list[Finding] = dataclasses.field(default_factory=list)
    unreadable: list[Unreadable] = dataclasses.field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """2 when something could not be read, else 1 when something breaks, else 0."""
        if self.unreadable:
            return 2
        return int(any(finding.fails for finding in self.findings))
