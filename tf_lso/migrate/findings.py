"""The results of the rules: a `Finding` for each use of the old API in a program."""

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

WRONG = "wrong"  # the program runs, and silently trains wrong
BREAKS = "breaks"  # the program fails, or does something else than before
UNSURE = "unsure"  # only a run can show what happens
WORKS = "works"  # the program works as before
# Maps each status to its name in reports. The worst status comes first.
LABELS = {WRONG: "trains wrong, silently", **{s: s for s in (BREAKS, UNSURE, WORKS)}}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What happens today with an old name, and the name that replaces it."""

    name: str  # the dotted old name, as the public API spelled it
    status: str  # WRONG, BREAKS, UNSURE or WORKS
    today: str  # what happens on today's TensorFlow
    replacement: str = ""  # the dotted name in tf_lso, or ""


@dataclasses.dataclass
class Finding:
    """A use of the old API in a program.

    Attributes:
      rule: the id of the rule, one of `RULES`.
      verdict: what happens today.
      node: the node of LibCST's tree that uses the old API.
      line, column: the position in the file or cell. Both count from 1.
      guarded: whether the program tests for the name first or catches the error.
      fix: a short text about the fix, such as the new name, or "" if there is no fix.
      why_not: a sentence that says why `migrate` does not fix the use, or "".
      edits: {node that the fix changes: new dotted name or new keyword}.
      needs_install: why the migrated program needs `tf_lso.install()`, or "".
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
        """Whether this finding alone makes the check exit with 1."""
        return self.verdict.status in (WRONG, BREAKS) and not self.guarded

    @property
    def is_problem(self) -> bool:
        """Whether the check prints the finding without `--verbose`."""
        return self.verdict.status != WORKS

    def leave(self, why: str) -> None:
        """Remove the fix and set `why_not` to a reason, which is "" if the name works."""
        self.fix, self.why_not, self.edits = "", why, {}

    def now(self, status: str, today: str) -> None:
        """Change the verdict of this finding."""
        self.verdict = dataclasses.replace(self.verdict, status=status, today=today)


@dataclasses.dataclass
class Unreadable:
    """A file or cell that could not be read or written, and the reason."""

    reason: str
    file: str = ""
    cell: int | None = None
    line: int | None = None


def unreadable(error: BaseException, cell: int | None = None) -> Unreadable:
    """Return the `Unreadable` for a parser's error, with the line if the error has one."""
    line = getattr(error, "lineno", None)
    why = str(error)
    if isinstance(error, SyntaxError):
        why = f"does not parse: {error.msg}"
    elif isinstance(error, (RecursionError, MemoryError)):
        why = "nested too deeply for this Python"
    return Unreadable(why, "", cell, line)


@dataclasses.dataclass
class Examined:
    """The result for a program or file.

    Attributes:
      old, new: the program before and after the fixes, as a text or as bytes.
      findings: the findings in the order of their positions in the program.
      places: the number of places that the fixes change.
      installs: the reasons why `tf_lso.install()` is added. If `entry` is not "", a person
        must add the call where `entry` says.
      unreadable: the cells that could not be read, or the file itself.
      path: the path of the file.
      entry: for a module of a package, where `tf_lso.install()` belongs; otherwise "".
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
