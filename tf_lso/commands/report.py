"""What `check` and `migrate` print: text for people, JSON, and annotations of a workflow.

`check` tells of all that is found. `migrate` shows what it changes, and tells of the rest.
"""

import dataclasses
import json
import os
import textwrap
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from tf_lso.names.targets import TODAY, Target
from tf_lso.source import files
from tf_lso.source.diagnostics import Diagnosis, Diagnostic
from tf_lso.source.files import Unreadable
from tf_lso.source.lookup import BREAKS, LABELS, UNSURE, WORKS, WRONG

_WIDTH = 88


@dataclasses.dataclass
class Outcome:
    """All that one run has found on a TensorFlow, and done.

    Attributes:
      target: the TensorFlow.
      written: whether the fixes were written.
      files: what became of each file looked at.
      unreadable: what could not be read, or was left alone, and why.
    """

    target: Target = TODAY
    written: bool = False
    files: list[Diagnosis] = dataclasses.field(default_factory=list)
    unreadable: list[Unreadable] = dataclasses.field(default_factory=list)

    def failed(self, path: str, error: Exception) -> None:
        """Add a path that cannot be listed."""
        self.unreadable.append(Unreadable(path, None, None, files.reason(error)))

    def add(self, file: Diagnosis) -> None:
        """Add what became of a file."""
        self.files.append(file)
        self.unreadable += file.unreadable

    @property
    def findings(self) -> list[Diagnostic]:
        """What `check` tells of."""
        return [one for file in self.files for one in file.findings]

    @property
    def left(self) -> list[Diagnostic]:
        """What `migrate` leaves to a person."""
        return [one for file in self.files for one in file.left]

    @property
    def changed(self) -> list[Diagnosis]:
        """The files that change."""
        return [file for file in self.files if file.diff]

    @property
    def exit_code(self) -> int:
        """2 when something could not be read, else 1 when something breaks, else 0."""
        if self.unreadable:
            return 2
        return int(any(finding.fails for finding in self.findings))


# --- Text for people.

_RED, _GREEN, _YELLOW = "31", "32", "33"
_COLORS = {WRONG: _RED, BREAKS: _RED, WORKS: _GREEN, UNSURE: _YELLOW}
_IN_DIFFS = {"---": "1", "+++": "1", "@@": "36", "+": _GREEN, "-": _RED}
_ADVICE = (
    "To run it unmodified: tf-lso run SCRIPT. Or put `import tf_lso; tf_lso.install()` "
    "before its imports.\n"
)
_HINT = "Nothing is written. To change the files: tf-lso migrate --write PATH…\n"


class _Text:
    """Writes to a stream: a terminal gets colors, unless NO_COLOR is set."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self._colors = stream.isatty() and not os.environ.get("NO_COLOR")

    def write(self, text: str) -> None:
        """Write a text. File names may have any bytes."""
        encoded = text.encode(self._encoding, "backslashreplace")
        self._stream.write(encoded.decode(self._encoding))

    def paint(self, text: str, color: str) -> str:
        """Return the text, in color if the stream shows colors."""
        return f"\033[{color}m{text}\033[0m" if self._colors else text

    def places(
        self,
        found: Iterable[Diagnostic],
        head: Callable[[Diagnostic], str],
        same: Callable[[Diagnostic], object],
        told: Callable[[Diagnostic], dict[str, str]],
    ) -> None:
        """Write places, each with what is told of it where a place tells it first."""
        said: dict[object, int] = {}
        for one in found:
            where = _place(one.file, one.cell, one.line, one.column)
            self.write(f"{where}: {one.rule} {head(one)}\n    {one.code}\n")
            key = one.file, one.cell, same(one)
            if key in said:
                self.write(f"    as in line {said[key]}\n")
            else:
                said[key] = one.line
                for label, text in told(one).items():
                    self.write(_paragraph(label, text))
            self.write("\n")

    def unreadable(self, items: Iterable[Unreadable], label: str) -> None:
        """Write what could not be read."""
        label = self.paint(label, _RED)
        for item in items:
            where = _place(item.file, item.cell, item.line)
            self.write(f"{where}: {label}  {item.reason}\n")
        if items:
            self.write("\n")


def _paragraph(label: str, text: str) -> str:
    wrapped = textwrap.fill(
        text,
        _WIDTH,
        initial_indent=f"    {label + ':':<8}",
        subsequent_indent=" " * 12,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return f"{wrapped}\n"


def _place(file: str, cell: int | None, *others: int | None) -> str:
    """Return where something is, as `file:cell 3:line:column`, as far as known."""
    parts = [file, f"cell {cell}" if cell else None, *others]
    return ":".join(str(part) for part in parts if part)


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def check_text(outcome: Outcome, stream: TextIO) -> None:
    """Write what is found, finding by finding, then a summary."""
    out, target = _Text(stream), outcome.target
    on = target.version if target.keras_2 else "today"

    def head(one: Diagnostic) -> str:
        status = out.paint(LABELS[one.verdict.status], _COLORS[one.verdict.status])
        return f"{status}{' (guarded)' if one.guarded else ''}  {one.name}"

    def told(one: Diagnostic) -> dict[str, str]:
        verdict = one.verdict
        new = f"{verdict.replacement}: " if verdict.replacement else ""
        said = {on: verdict.today, "tf_lso": new + verdict.tf_lso}
        if verdict.current not in ("", verdict.name):
            said["now"] = verdict.current
        return said

    out.places(outcome.findings, head, lambda one: one.verdict, told)
    out.unreadable(outcome.unreadable, "unreadable")
    count = _counted(outcome)
    said = "no use of the legacy loss-scaling API found"
    if outcome.findings:
        wrong = f", {count['wrong']} would train wrong, silently"
        said = _plural(count["findings"], "legacy use") + wrong * bool(count["wrong"])
        said += f", {count['breaks']} would break"
        for word in ("guarded", UNSURE, WORKS):
            said += f", {count[word]} {word}" if count[word] else ""
    if outcome.unreadable:
        said += f"; {count['unreadable']} unreadable"
    out.write(
        f"{_plural(count['files'], 'file')} read, for TensorFlow {target.version}: "
    )
    out.write(f"{said}.\n")
    if count["wrong"] or count["breaks"]:
        out.write(_ADVICE)


def migrate_text(outcome: Outcome, stream: TextIO) -> None:
    """Write the diffs, then what is left, then a summary."""
    out = _Text(stream)
    for file in outcome.changed:
        for line in file.diff.splitlines(keepends=True):
            mark = next((mark for mark in _IN_DIFFS if line.startswith(mark)), None)
            out.write(out.paint(line, _IN_DIFFS[mark]) if mark else line)
    if outcome.changed:
        out.write("\n")
    out.places(
        outcome.left,
        lambda one: f"{out.paint('left', _YELLOW)}  {one.name}",
        lambda one: (one.name, one.why),
        lambda one: {"why": one.why, "do": one.do},
    )
    for file in outcome.changed:
        if file.installs:
            out.write(f"{file.path}: tf_lso.install() is added, for:\n")
            out.write(f"    {', '.join(file.installs)}\n\n")
    out.unreadable(outcome.unreadable, "left alone")
    count = _counted_changes(outcome)
    said = "nothing to change"
    if outcome.changed:
        does = "changed" if outcome.written else "would change"
        said = f"{count['changed']} {does}, in {_plural(count['places'], 'place')}"
    if count["left"]:
        said += f"; {_plural(count['left'], 'place')} left"
    if outcome.unreadable:
        said += f"; {_plural(count['unreadable'], 'file')} left alone"
    out.write(f"{_plural(count['files'], 'file')} read: {said}.\n")
    if outcome.changed and not outcome.written:
        out.write(_HINT)


# --- JSON.


def _counted(outcome: Outcome) -> dict[str, int]:
    findings = outcome.findings
    status = [finding.verdict.status for finding in findings]
    fails = [finding.verdict.status for finding in findings if finding.fails]
    return {
        "files": len(outcome.files),
        "findings": len(findings),
        "wrong": fails.count(WRONG),
        "breaks": fails.count(BREAKS),
        "guarded": sum(finding.guarded for finding in findings),
        "works": status.count(WORKS),
        "unsure": status.count(UNSURE),
        "unreadable": len(outcome.unreadable),
    }


def _counted_changes(outcome: Outcome) -> dict[str, int]:
    return {
        "files": len(outcome.files),
        "changed": len(outcome.changed),
        "places": sum(file.changes for file in outcome.changed),
        "left": len(outcome.left),
        "unreadable": len(outcome.unreadable),
    }


_WHERE = ("file", "cell", "line", "column", "rule")
_VERDICT = ("name", "status", "today", "tf_lso", "current", "replacement")


def check_json(outcome: Outcome, stream: TextIO) -> None:
    """Write what is found as one JSON object."""
    findings = [
        {key: getattr(one, key) for key in (*_WHERE, "kind", "code", "guarded")}
        | {key: getattr(one.verdict, key) for key in _VERDICT}
        | {"fix": one.fix, "why_not": one.why or None}
        for one in outcome.findings
    ]
    summary = {**_counted(outcome), "exit_code": outcome.exit_code}
    shown = {"target": outcome.target.version, "findings": findings}
    _write_json(outcome, shown, summary, stream)


def migrate_json(outcome: Outcome, stream: TextIO) -> None:
    """Write what changes, and what is left, as one JSON object."""
    told = (*_WHERE, "code", "name", "why", "do")
    changed = [
        {
            "file": file.path,
            "places": file.changes,
            "install": file.installs,
            "diff": file.diff,
        }
        for file in outcome.changed
    ]
    left = [{key: getattr(one, key) for key in told} for one in outcome.left]
    shown = {"written": outcome.written, "changed": changed, "left": left}
    _write_json(outcome, shown, _counted_changes(outcome), stream)


def _write_json(
    outcome: Outcome, shown: dict[str, Any], summary: dict[str, int], stream: TextIO
) -> None:
    """Write in ASCII, whatever the file names."""
    unreadable = [dataclasses.asdict(item) for item in outcome.unreadable]
    document = {"version": 1, **shown, "unreadable": unreadable, "summary": summary}
    json.dump(document, stream, indent=2, allow_nan=False)
    stream.write("\n")


# --- Annotations.


def github(outcome: Outcome, stream: TextIO) -> None:
    """Write one workflow command per finding, and per file that cannot be read.

    https://docs.github.com/actions/reference/workflow-commands-for-github-actions
    """
    write = _Text(stream).write
    for item in outcome.unreadable:
        at = {} if item.cell or not item.line else {"line": item.line}
        write(_command("error", item, at, "unreadable", item.reason))
    for one in outcome.findings:
        verdict = one.verdict
        level = "warning" if verdict.status == UNSURE else "notice"
        label = f"{LABELS[verdict.status]} on TensorFlow {outcome.target.version}"
        new = f"{verdict.replacement}: " if verdict.replacement else ""
        write(
            _command(
                "error" if one.fails else level,
                one,
                {} if one.cell else {"line": one.line, "col": one.column},
                f"{one.rule} {label}: {verdict.name}",
                f"{verdict.today} tf_lso: {new}{verdict.tf_lso}",
            )
        )


def _command(
    level: str,
    item: Diagnostic | Unreadable,
    where: dict[str, int],
    title: str,
    message: str,
) -> str:
    if item.cell:  # the file's own lines are those of its JSON
        message = f"cell {item.cell}, line {item.line}: {message}"
    properties = {"file": os.path.normpath(item.file), **where, "title": title}
    listed = (
        f"{name}={_escaped(str(value)).replace(':', '%3A').replace(',', '%2C')}"
        for name, value in properties.items()
    )
    return f"::{level} {','.join(listed)}::{_escaped(message)}\n"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
