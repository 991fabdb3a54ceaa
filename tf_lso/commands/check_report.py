"""The outcome of a check as text for people and as JSON for programs."""

import dataclasses
from typing import Any, TextIO

from tf_lso.commands import annotations, printing
from tf_lso.source.findings import Finding, Outcome
from tf_lso.source.verdict import BREAKS, LABELS, UNSURE, WORKS, WRONG

_COLORS = {WRONG: "31", BREAKS: "31", WORKS: "32", UNSURE: "33"}
_GUARDED = "guarded"
_ADVICE = (
    "To run it unmodified: tf-lso run SCRIPT. Or put `import tf_lso; tf_lso.install()` "
    "before its imports."
)


def _shown(
    finding: Finding, first: int | None, on: str, printer: printing.Printer
) -> str:
    """Return a finding as text; `first` is the line that said the same before."""
    verdict = finding.verdict
    status = printer.paint(LABELS[verdict.status], _COLORS[verdict.status])
    status += f" ({_GUARDED})" if finding.guarded else ""
    where = printing.place(finding.file, finding.cell, finding.line, finding.column)
    text = f"{where}: {status}  {verdict.name}\n"
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


def _as_json(finding: Finding) -> dict[str, Any]:
    verdict = finding.verdict
    return {
        "file": finding.file,
        "cell": finding.cell,
        "line": finding.line,
        "column": finding.column,
        "kind": finding.kind,
        "name": verdict.name,
        "code": finding.code,
        "status": verdict.status,
        "guarded": finding.guarded,
        "today": verdict.today,
        "tf_lso": verdict.tf_lso,
        "current": verdict.current,
        "replacement": verdict.replacement,
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


FORMATS = {
    "text": text,
    "json": as_json,
    "github": annotations.github,
    "sarif": annotations.sarif,
}
