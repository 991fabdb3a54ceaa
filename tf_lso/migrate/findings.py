"""What the rules find: one `Finding` for each place of a program."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import libcst as cst

# --- The ids of the rules. `rules.md` explains each of them, with an example.

GONE, CHANGED, SAME = "LSO101", "LSO102", "LSO103"
ARGUMENTS, METHOD, SILENT = "LSO104", "LSO105", "LSO106"
UNKNOWN, UNSEEN = "LSO107", "LSO108"
OPTIMIZER, PROTOCOL, FILES, PRIVATE = "LSO109", "LSO110", "LSO111", "LSO112"
RULES = tuple(f"LSO{number}" for number in range(101, 113))

# --- What happens today where the old name stands.

WRONG = "wrong"  # the program runs, and silently trains wrong
BREAKS = "breaks"  # it fails, or does something else
UNSURE = "unsure"  # only a run can tell
WORKS = "works"  # it does what it did
# The worst status first, in words for people.
LABELS = {WRONG: "trains wrong, silently", **{s: s for s in (BREAKS, UNSURE, WORKS)}}

# An edit gets the node with the edits of its children applied, and returns the new node.
Edit = Callable[[Any], "cst.BaseExpression | cst.Arg"]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What is known of one old name, wherever it is used."""

    name: str  # the dotted old name, as the public API spelled it
    status: str  # WRONG, BREAKS, UNSURE or WORKS
    today: str  # what happens on today's TensorFlow
    tf_lso: str = ""  # what tf_lso does about it
    current: str = ""  # what today's own API has instead
    replacement: str | None = None  # the dotted name in tf_lso


@dataclasses.dataclass
class Finding:
    """One place of a program that uses the old API.

    Attributes:
      rule: the id of the rule, one of `RULES`.
      verdict: what happens today.
      line, column: the place in the file or cell, both from 1; columns are characters.
      guarded: whether the program asks first, or catches the error.
      fix: what `migrate` does, in words, such as the new name; None if it does nothing.
      why_not: one sentence why `migrate` leaves something to do, or "".
      edits: the nodes that the fix changes, each with its edit.
      moved: the imported names that the fix moves.
      needs_install: why the migrated program needs `tf_lso.install()` for it, or "".
      in_function: whether it stands in the body of a function.
      in_main: whether it stands in the main guard.
      of_call: whether it is about the arguments of a call, and not about a name.
      file, cell: where it is; the cells of a notebook are counted from 1.
      code: the source line, stripped.
    """

    rule: str
    verdict: Verdict
    line: int
    column: int
    guarded: bool = False
    fix: str | None = None
    why_not: str = ""
    edits: "dict[cst.CSTNode, Edit]" = dataclasses.field(default_factory=dict)
    moved: "dict[cst.ImportAlias, str]" = dataclasses.field(default_factory=dict)
    needs_install: str = ""
    in_function: bool = False
    in_main: bool = False
    of_call: bool = False
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
        """Take the fix back, and say why."""
        self.fix, self.why_not = None, why
        self.edits, self.moved = {}, {}

    def stay(self) -> None:
        """Take the fix back: the name works as it is."""
        self.fix, self.edits, self.moved = None, {}, {}

    def now(self, status: str, today: str) -> None:
        """Change what happens today."""
        self.verdict = dataclasses.replace(self.verdict, status=status, today=today)


@dataclasses.dataclass(frozen=True)
class Unreadable:
    """A file or cell that could not be read or written, and why."""

    file: str
    reason: str
    cell: int | None = None
    line: int | None = None


@dataclasses.dataclass
class Examined:
    """All that is found in one file, and what `migrate` makes of it.

    Attributes:
      path: the path of the file.
      findings: what is found, in the order of the places.
      unreadable: what could not be read.
      old, new: the bytes of the file, before and after the fixes.
      places: how many places the fixes change.
      installs: why `tf_lso.install()` is added, or needed where `entry` is not "".
      entry: where a person is to add `tf_lso.install()`, for a module of a package.
      notebook: whether the file is a notebook.
    """

    path: str = ""
    findings: list[Finding] = dataclasses.field(default_factory=list)
    unreadable: list[Unreadable] = dataclasses.field(default_factory=list)
    old: bytes = b""
    new: bytes = b""
    places: int = 0
    installs: list[str] = dataclasses.field(default_factory=list)
    entry: str = ""
    notebook: bool = False

    @property
    def left(self) -> list[Finding]:
        """The findings that `migrate` leaves to a person."""
        return [found for found in self.findings if found.why_not]
