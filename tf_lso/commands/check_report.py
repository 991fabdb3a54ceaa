"""The outcome of a check as text for people, as JSON, and for pull requests."""

import dataclasses
import os
from typing import Any, TextIO

from tf_lso.commands import printing
from tf_lso.names.targets import Target
from tf_lso.source.diagnostics import Diagnostic
from tf_lso.source.reading import Unreadable
from tf_lso.source.verdict import BREAKS, LABELS, UNSURE, WORKS, WRONG


@dataclasses.dataclass
class Outcome:
    """All that one run of the check has found on a TensorFlow."""

    target: Target
    files: int = 0
    findings: list[Diagnostic] = dataclasses.field(default_factory=list)
    unreadable: list[Unreadable] = dataclasses.field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """2 when something could not be read, else 1 when something breaks, else 0."""
        if self.unreadable:
            return 2
        return int(any(finding.fails for finding in self.findings))


_COLORS = {WRONG: "31", BREAKS: "31", WORKS: "32", UNSURE: "33"}
_GUARDED = "guarded"
_ADVICE = (
    "To run it unmodified: tf-lso run SCRIPT. Or put `import tf_lso; tf_lso.install()` "
    "before its imports."
)


def _shown(
    finding: Diagnostic, first: int | None, on: str, printer: printing.Printer
) -> str:
    """Return a finding as text; `first` is the line that said the same before."""
    verdict = finding.verdict
    status = printer.paint(LABELS[verdict.status], _COLORS[verdict.status])
    status += f" ({_GUARDED})" if finding.guarded else ""
    where = printing.place(finding.file, finding.cell, finding.line, finding.column)
    text = f"{where}: {finding.rule} {status}  {verdict.name}\n"
    if finding.code:
        text += f"    {finding.code}\n"
    if first:
        return text + f"    as in line {first}\n"
    text += printer.paragraph(on, verdict.today)
    new = f"{verdict.replacement}: " if verdict.replacement else ""
    text += printer.paragraph("tf_lso", new + verdict.tf_lso)
    if verdict.current not in ("", verdict.name):
        text += printer.paragraph("now", verdict.current)
    return text


def _summary(outcome: Outcome) -> dict[str, int]:
    findings = outcome.findings
    return {
        "files": outcome.files,
        "findings": len(findings),
        "wrong": sum(f.fails and f.verdict.status == WRONG for f in findings),
        "breaks": sum(f.fails and f.verdict.status == BREAKS for f in findings),
        "guarded": sum(finding.guarded for finding in findings),
        "works": sum(finding.verdict.status == WORKS for finding in findings),
        "unsure": sum(finding.verdict.status == UNSURE for finding in findings),
        "unreadable": len(outcome.unreadable),
    }


def text(outcome: Outcome, stream: TextIO) -> None:
    """Write the outcome for people: finding by finding, then a summary."""
    printer = printing.Printer(stream)
    write = printer.write
    said: dict[tuple[object, ...], int] = {}
    target = outcome.target
    where = target.version if target.keras_2 else "today"
    for finding in outcome.findings:
        same = (finding.file, finding.cell, finding.verdict)
        write(_shown(finding, said.get(same), where, printer) + "\n")
        said.setdefault(same, finding.line)
    printer.unreadable(outcome.unreadable, "unreadable")
    count = _summary(outcome)
    read = f"{printing.plural(count['files'], 'file')} read"
    write(f"{read}, for TensorFlow {target.version}: ")
    if not outcome.findings:
        write("no use of the legacy loss-scaling API found")
    else:
        write(printing.plural(count["findings"], "legacy use"))
        if count["wrong"]:
            write(f", {count['wrong']} would train wrong, silently")
        write(f", {count['breaks']} would break")
        for word in (_GUARDED, UNSURE, WORKS):
            write(f", {count[word]} {word}" if count[word] else "")
    if outcome.unreadable:
        write(f"; {count['unreadable']} unreadable")
    write(".\n")
    if count["wrong"] or count["breaks"]:
        write(f"{printer.wrap(_ADVICE)}\n")


def _as_json(finding: Diagnostic) -> dict[str, Any]:
    verdict = finding.verdict
    return {
        "file": finding.file,
        "cell": finding.cell,
        "line": finding.line,
        "column": finding.column,
        "rule": finding.rule,
        "kind": finding.kind,
        "name": verdict.name,
        "code": finding.code,
        "status": verdict.status,
        "guarded": finding.guarded,
        "today": verdict.today,
        "tf_lso": verdict.tf_lso,
        "current": verdict.current,
        "replacement": verdict.replacement,
        "fix": finding.fix.does if finding.fix else None,
        "why_not": finding.why or None,
    }


def as_json(outcome: Outcome, stream: TextIO) -> None:
    """Write the outcome as one JSON object, in ASCII, whatever the file names."""
    document = {
        "version": 1,
        "target": outcome.target.version,
        "findings": [_as_json(finding) for finding in outcome.findings],
        "unreadable": [dataclasses.asdict(item) for item in outcome.unreadable],
        "summary": {**_summary(outcome), "exit_code": outcome.exit_code},
    }
    printing.write_json(document, stream)


def github(outcome: Outcome, stream: TextIO) -> None:
    """Write one workflow command per finding, and per file that cannot be read.

    https://docs.github.com/actions/reference/workflow-commands-for-github-actions
    """
    printer = printing.Printer(stream)
    for item in outcome.unreadable:
        at = {"line": item.line} if not item.cell else {}
        reason = f"{_cell(item)}{item.reason}"
        printer.write(_command("error", item.file, at, "unreadable", reason))
    for finding in outcome.findings:
        verdict = finding.verdict
        on = f" on TensorFlow {outcome.target.version}"
        title = f"{finding.rule} {LABELS[verdict.status]}{on}: {verdict.name}"
        where: dict[str, int | None] = {"line": finding.line, "col": finding.column}
        where = {} if finding.cell else where
        new = f"{verdict.replacement}: " if verdict.replacement else ""
        said = f"{_cell(finding)}{verdict.today} tf_lso: {new}{verdict.tf_lso}"
        printer.write(_command(_level(finding), finding.file, where, title, said))


def _command(
    level: str, file: str, where: dict[str, int | None], title: str, message: str
) -> str:
    properties = {"file": os.path.normpath(file), **where, "title": title}
    listed = (
        f"{name}={_escaped(str(value)).replace(':', '%3A').replace(',', '%2C')}"
        for name, value in properties.items()
        if value is not None
    )
    return f"::{level} {','.join(listed)}::{_escaped(message)}\n"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _level(finding: Diagnostic) -> str:
    if finding.fails:
        return "error"
    return "warning" if finding.verdict.status == UNSURE else "notice"


def _cell(item: Diagnostic | Unreadable) -> str:
    """Say where in a notebook it is. The file's own lines are those of its JSON."""
    return f"cell {item.cell}, line {item.line}: " if item.cell else ""


FORMATS = {"text": text, "json": as_json, "github": github}
