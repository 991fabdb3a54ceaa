"""What the rules find: one `Finding` for each place of a program."""

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import libcst as cst

# --- The ids of the rules. `rules.md` explains each of them, with an example.

GONE, CHANGED, SAME = "LSO101", "LSO102", "LSO103"
ARGUMENTS, METHOD, SILENT = "LSO104", "LSO105", "LSO106"
UNSEEN, OPTIMIZER = "LSO108", "LSO109"
PROTOCOL, PRIVATE = "LSO110", "LSO112"
RULES = (
    *(GONE, CHANGED, SAME, ARGUMENTS, METHOD, SILENT),
    *(UNSEEN, OPTIMIZER, PROTOCOL, PRIVATE),
)

# --- What happens today where the old name stands.

WRONG = "wrong"  # the program runs, and silently trains wrong
BREAKS = "breaks"  # it fails, or does something else
UNSURE = "unsure"  # only a run can tell
WORKS = "works"  # it does what it did
# The worst status first, in words for people.
LABELS = {WRONG: "trains wrong, silently", **{s: s for s in (BREAKS, UNSURE, WORKS)}}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What is known of one old name, wherever it is used."""

    name: str  # the dotted old name, as the public API spelled it
    status: str  # WRONG, BREAKS, UNSURE or WORKS
    today: str  # what happens on today's TensorFlow
    replacement: str = ""  # the dotted name in tf_lso


@dataclasses.dataclass
class Finding:
    """One place of a program that uses the old API.

    Attributes:
      rule: the id of the rule, one of `RULES`.
      verdict: what happens today.
      node: the node that is found.
      line, column: the place in the file or cell, both from 1; columns are characters.
      guarded: whether the program asks first, or catches the error.
      fix: what `migrate` does, in words, such as the new name; "" if it does nothing.
      why_not: one sentence why `migrate` leaves something to do, or "".
      edits: the nodes that the fix changes -> the new dotted name, or new keyword.
      needs_install: why the migrated program needs `tf_lso.install()` for it, or "".
      file, cell: where it is; the cells of a notebook are counted from 1.
      code: the source line, stripped.
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
        """Whether this alone makes the check exit with 1."""
        return self.verdict.status in (WRONG, BREAKS) and not self.guarded

    @property
    def is_problem(self) -> bool:
        """Whether the check prints it without `--verbose`."""
        return self.verdict.status != WORKS

    def leave(self, why: str) -> None:
        """Take the fix back, and say why. Without a reason the name works as it is."""
        self.fix, self.why_not, self.edits = "", why, {}

    def now(self, status: str, today: str) -> None:
        """Change what happens today."""
        self.verdict = dataclasses.replace(self.verdict, status=status, today=today)


@dataclasses.dataclass
class Unreadable:
    """A file or cell that could not be read or written, and why."""

    reason: str
    file: str = ""
    cell: int | None = None
    line: int | None = None


def unreadable(error: BaseException, cell: int | None = None) -> Unreadable:
    """Return why a text cannot be read, with the line where there is one."""
    line = getattr(error, "lineno", None)
    why = str(error)
    if isinstance(error, SyntaxError):
        why = f"does not parse: {error.msg}"
    elif isinstance(error, (RecursionError, MemoryError)):
        why = "nested too deeply for this Python"
    return Unreadable(why, "", cell, line)


@dataclasses.dataclass
class Examined:
    """All that is found in one program or file, and what `migrate` makes of it.

    Attributes:
      old, new: the program before and after the fixes, as a text or as bytes.
      findings: what is found, in the order of the places.
      places: how many places the fixes change.
      installs: why `tf_lso.install()` is added, or needed where `entry` is not "".
      unreadable: what could not be read.
      path: the path of the file.
      entry: where a person is to add `tf_lso.install()`, for a module of a package.
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
