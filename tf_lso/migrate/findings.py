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
BREAKS = "breaks"  # the program fails, or behaves differently than before
UNSURE = "unsure"  # only a run can show what happens
WORKS = "works"


@dataclasses.dataclass(frozen=True)
class Consequence:
    """What happens today if a program uses an old name, and what replaces the name."""

    name: str  # the dotted old name, as the public API spelled it
    status: str
    today: str
    replacement: str = ""  # the dotted name in tf_lso that replaces the old name, or ""


@dataclasses.dataclass
class Finding:
    """One use of the old API in a program. Lines, columns and cells count from 1."""

    rule: str
    consequence: Consequence
    node: "cst.CSTNode"
    line: int
    column: int
    # Whether a test or an `except` clause around this use handles a missing name.
    guarded: bool = False
    # A short text about the fix, such as the new name, or "" if there is no fix.
    fix: str = ""
    # A sentence that says why `migrate` does not fix this use, or "".
    why_not: str = ""
    # Maps each node that the fix changes to its new dotted name, keyword or string.
    edits: "dict[cst.CSTNode, str]" = dataclasses.field(default_factory=dict)
    # Why this use needs `tf_lso.install()`, or "" if it does not.
    needs_install: str = ""
    file: str = ""
    cell: int | None = None
    code: str = ""

    @property
    def fails(self) -> bool:
        """Whether `tf-lso check` exits with 1 because of this finding."""
        return self.consequence.status in (WRONG, BREAKS) and not self.guarded

    @property
    def is_problem(self) -> bool:
        """Whether `tf-lso check` prints this finding even without `--verbose`."""
        return self.consequence.status != WORKS

    def leave(self, why: str) -> None:
        """Remove the fix. `why` is the reason, or "" if the use works unchanged."""
        self.fix, self.why_not, self.edits = "", why, {}

    def now(self, status: str, today: str) -> None:
        self.consequence = dataclasses.replace(
            self.consequence, status=status, today=today
        )


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
    """The result of examining one program or file."""

    # The program before and after the fixes, as a text or as bytes.
    old: Any = b""
    new: Any = b""
    findings: list[Finding] = dataclasses.field(default_factory=list)
    places: int = 0
    installs: list[str] = dataclasses.field(default_factory=list)
    unreadable: list[Unreadable] = dataclasses.field(default_factory=list)
    path: str = ""
    # The program in which a person must call `tf_lso.install()`, or "".
    entry: str = ""

    @property
    def is_read(self) -> bool:
        """Whether the file was read. A notebook counts even if some cells were not read."""
        return all(item.cell for item in self.unreadable)
