"""Define the results of the rules, such as a `Finding` for one use of the old API."""

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import libcst as cst

# --- The ids of the rules. `rules.md` explains each of them with an example.

GONE, CHANGED, SAME = "LSO101", "LSO102", "LSO103"
ARGUMENTS, METHOD, SILENT = "LSO104", "LSO105", "LSO106"
UNSEEN, OPTIMIZER = "LSO108", "LSO109"
PROTOCOL, FILES, PRIVATE = "LSO110", "LSO111", "LSO112"
RULES = (
    *(GONE, CHANGED, SAME, ARGUMENTS, METHOD, SILENT),
    *(UNSEEN, OPTIMIZER, PROTOCOL, FILES, PRIVATE),
)

# --- The statuses, which say what happens today if a program uses an old name.

WRONG = "wrong"  # the program runs without an error, but trains incorrectly
BREAKS = "breaks"  # the program fails, or does something else than before
UNSURE = "unsure"  # only a run can show what happens
WORKS = "works"  # the program works as before
# Maps each status to its name in reports. The worst status comes first.
LABELS = {WRONG: "trains wrong, silently", **{s: s for s in (BREAKS, UNSURE, WORKS)}}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What happens today if a program uses an old name, and what replaces the name."""

    name: str  # the dotted old name, as the public API spelled it
    status: str  # WRONG, BREAKS, UNSURE or WORKS
    today: str  # what happens on today's TensorFlow
    replacement: str = ""  # the dotted name in tf_lso that replaces the old name, or ""


@dataclasses.dataclass
class Finding:
    """One use of the old API in a program.

    Attributes:
      rule: the id of the rule, one of `RULES`.
      verdict: what happens today because of this use, and what replaces the old name.
      node: the node of LibCST's tree that uses the old API.
      line, column: the position in the file or cell. Both count from 1.
      guarded: whether the program tests that the name exists before this use, or catches the
        error of a missing name.
      fix: a short text about the fix, such as the new name, or "" if there is no fix.
      why_not: a sentence that says why `migrate` does not fix this use, or "".
      edits: dict that maps each node that the fix changes to its new dotted name or keyword.
      needs_install: why this use needs `tf_lso.install()`, or "" if it does not.
      file: the path of the file.
      cell: the number of the cell in a notebook, from 1. None for other files.
      code: the source line of the use, without spaces at its beginning and end.
    """

    rule: str
    verdict: Verdict
    node: "cst.CSTNode"
    line: int
    column: int
    guarded: bool = False
    fix: str = ""
    why_not: str = ""
    edits: "dict[cst.CSTNode, str]" = dataclasses.field(default_factory=dict)
    needs_install: str = ""
    file: str = ""
    cell: int | None = None
    code: str = ""

    @property
    def fails(self) -> bool:
        """Whether `tf-lso check` exits with 1 because of this finding."""
        return self.verdict.status in (WRONG, BREAKS) and not self.guarded

    @property
    def is_problem(self) -> bool:
        """Whether `tf-lso check` prints this finding even without `--verbose`."""
        return self.verdict.status != WORKS

    def leave(self, why: str) -> None:
        """Remove the fix, so that `migrate` leaves the use unchanged.

        Args:
          why: a sentence that says why `migrate` leaves the use unchanged. "" if the use
            works unchanged.
        """
        self.fix, self.why_not, self.edits = "", why, {}

    def now(self, status: str, today: str) -> None:
        """Change the verdict's status and the verdict's sentence about what happens today."""
        self.verdict = dataclasses.replace(self.verdict, status=status, today=today)


@dataclasses.dataclass
class Unreadable:
    """A file or notebook cell that could not be read or written, and the reason."""

    reason: str
    file: str = ""
    cell: int | None = None
    line: int | None = None


def unreadable(error: BaseException, cell: int | None = None) -> Unreadable:
    """Return an `Unreadable` that describes a parser's error and its line, if known."""
    line = getattr(error, "lineno", None)
    why = str(error)
    if isinstance(error, SyntaxError):
        why = f"does not parse: {error.msg}"
    elif isinstance(error, (RecursionError, MemoryError)):
        why = "nested too deeply for this Python"
    return Unreadable(why, "", cell, line)


@dataclasses.dataclass
class Examined:
    """The result of the examination of one program or file.

    Attributes:
      old, new: the program before and after the fixes, as a text or as bytes.
      findings: the findings in the order of their positions in the program.
      places: the number of places in the program that the fixes change.
      installs: the reasons why the program needs `tf_lso.install()`.
      unreadable: an `Unreadable` for the file or for each cell that could not be read.
      path: the path of the file.
      entry: the program in which a person must call `tf_lso.install()`, if the file is a
        module of a package. "" if `migrate` can add the call to the file itself.
      notebook: whether the file is a notebook.
    """

    old: Any = b""
    new: Any = b""
    findings: list[Finding] = dataclasses.field(default_factory=list)
    places: int = 0
    installs: list[str] = dataclasses.field(default_factory=list)
    unreadable: list[Unreadable] = dataclasses.field(default_factory=list)
    path: str = ""
    entry: str = ""
    notebook: bool = False
