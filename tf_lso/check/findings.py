"""What the check reports: a use of the old API, and a source that cannot be read."""

import dataclasses

WRONG = "wrong"  # goes on without a word, and computes something else
BREAKS = "breaks"  # fails, or does something else, on today's TensorFlow
WORKS = "works"  # listed for completeness
UNSURE = "unsure"  # depends on what only a run can tell
FAILURES = (WRONG, BREAKS)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What is to be said of one old name, wherever it is used.

    Attributes:
      name: dotted old name, as the public API spelled it.
      status: WRONG, BREAKS, WORKS or UNSURE.
      today: what happens on today's TensorFlow.
      tf_lso: what tf_lso does about it.
      error: name of the exception that the very place of use raises, or "".
      current: what today's own API has instead, or "".
      replacement: dotted name in tf_lso, or None.
    """

    name: str
    status: str
    today: str
    tf_lso: str
    error: str = ""
    current: str = ""
    replacement: str | None = None


@dataclasses.dataclass(frozen=True)
class Finding:
    """One use of the old API at one place.

    Attributes:
      file: path as it was reached from the command line.
      cell: number of the notebook cell, from 1, or None.
      line: line in the file or cell, from 1.
      column: column, from 1.
      kind: "import", "attribute", "constructor", "method" or "note".
      code: the source line, stripped.
      guarded: whether the program itself takes care that it does not fail.
      verdict: what is to be said of it.
    """

    file: str
    cell: int | None
    line: int
    column: int
    kind: str
    code: str
    guarded: bool
    verdict: Verdict

    @property
    def fails(self) -> bool:
        """Whether this alone makes the check exit with 1."""
        return self.verdict.status in FAILURES and not self.guarded


@dataclasses.dataclass(frozen=True)
class Unreadable:
    """A file or cell that could not be checked, and why."""

    file: str
    cell: int | None
    line: int | None
    reason: str


@dataclasses.dataclass
class Outcome:
    """All that one run of the check has found."""

    files: int = 0
    findings: list[Finding] = dataclasses.field(default_factory=list)
    unreadable: list[Unreadable] = dataclasses.field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """2 when something could not be read, else 1 when something breaks, else 0."""
        if self.unreadable:
            return 2
        return int(any(finding.fails for finding in self.findings))
