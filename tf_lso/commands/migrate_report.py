"""The outcome of a migration as text for people and as JSON for programs."""

import dataclasses
from typing import Any, TextIO

from tf_lso.commands import printing
from tf_lso.commands.one_file import Examined
from tf_lso.source.diagnostics import Diagnostic
from tf_lso.source.reading import Unreadable


@dataclasses.dataclass
class Outcome:
    """All that one run has done, or would do.

    Attributes:
      written: whether the files were changed.
      files: every file looked at.
      unreadable: what was left alone, and why.
    """

    written: bool = False
    files: list[Examined] = dataclasses.field(default_factory=list)
    unreadable: list[Unreadable] = dataclasses.field(default_factory=list)

    @property
    def changed(self) -> list[Examined]:
        """The files that change."""
        return [file for file in self.files if file.diff]

    def exit_code(self, check: bool) -> int:
        """2 if something was left alone, else 1 with `check` if a file changes."""
        if self.unreadable:
            return 2
        return int(check and bool(self.changed))


def text(outcome: Outcome, stream: TextIO) -> None:
    """Write the diffs, then what is left, then a summary."""
    printer = printing.Printer(stream)
    write = printer.write
    for file in outcome.changed:
        for line in file.diff.splitlines(keepends=True):
            write(_painted(line, printer))
    if outcome.changed:
        write("\n")
    for file in outcome.files:
        said: dict[tuple[object, ...], int] = {}
        for item in file.left:
            same = (item.cell, item.name, item.why)
            write(_shown(file.path, item, said.get(same), printer) + "\n")
            said.setdefault(same, item.line)
    for file in outcome.files:
        if file.installs:
            write(f"{file.path}: tf_lso.install() is added, for:\n")
            write(f"    {', '.join(file.installs)}\n\n")
    printer.unreadable(outcome.unreadable, "left alone")
    write(_in_words(outcome))


_COLORS = {"---": "1", "+++": "1", "@@": "36", "+": "32", "-": "31"}


def _painted(line: str, printer: printing.Printer) -> str:
    """Return a line of a diff in the color of its mark."""
    for mark, color in _COLORS.items():
        if line.startswith(mark):
            return printer.paint(line, color)
    return line


def _shown(
    path: str, item: Diagnostic, first: int | None, printer: printing.Printer
) -> str:
    """Return a place that is left; `first` is the line that said the same before."""
    where = printing.place(path, item.cell, item.line, item.column)
    label = f"{item.rule} {printer.paint('left', '33')}"
    shown = f"{where}: {label}  {item.name}\n    {item.code}\n"
    if first is not None:
        return shown + f"    as in line {first}\n"
    return shown + printer.paragraph("why", item.why) + printer.paragraph("do", item.do)


def _summary(outcome: Outcome) -> dict[str, int]:
    return {
        "files": len(outcome.files),
        "changed": len(outcome.changed),
        "places": sum(file.changes for file in outcome.changed),
        "left": sum(len(file.left) for file in outcome.files),
        "unreadable": len(outcome.unreadable),
    }


def _in_words(outcome: Outcome) -> str:
    count = _summary(outcome)
    does = "changed" if outcome.written else "would change"
    said = f"{printing.plural(count['files'], 'file')} read: "
    if count["changed"]:
        said += (
            f"{count['changed']} {does}, in {printing.plural(count['places'], 'place')}"
        )
    else:
        said += "nothing to change"
    if count["left"]:
        said += f"; {printing.plural(count['left'], 'place')} left"
    if count["unreadable"]:
        said += f"; {printing.plural(count['unreadable'], 'file')} left alone"
    said += ".\n"
    if count["changed"] and not outcome.written:
        said += (
            "Nothing is written. To change the files: tf-lso migrate --write PATH…\n"
        )
    return said


def as_json(outcome: Outcome, stream: TextIO) -> None:
    """Write the outcome as one JSON object, in ASCII, whatever the file names."""
    document: dict[str, Any] = {
        "version": 1,
        "written": outcome.written,
        "changed": [
            {
                "file": file.path,
                "places": file.changes,
                "install": file.installs,
                "diff": file.diff,
            }
            for file in outcome.changed
        ],
        "left": [
            {key: getattr(item, key) for key in _LEFT}
            for file in outcome.files
            for item in file.left
        ],
        "unreadable": [dataclasses.asdict(item) for item in outcome.unreadable],
        "summary": _summary(outcome),
    }
    printing.write_json(document, stream)


# What JSON tells of a place that is left.
_LEFT = ("file", "rule", "cell", "line", "column", "code", "name", "why", "do")
FORMATS = {"text": text, "json": as_json}
