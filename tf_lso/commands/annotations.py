"""The outcome of a check as a pull request shows it: GitHub's commands, and SARIF.

https://docs.github.com/actions/reference/workflow-commands-for-github-actions
https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

import os
import pathlib
import urllib.parse
from typing import Any, TextIO

import tf_lso
from tf_lso.commands import printing
from tf_lso.source.findings import Finding, Outcome
from tf_lso.source.reading import Unreadable
from tf_lso.source.verdict import LABELS, UNSURE

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def github(outcome: Outcome, stream: TextIO) -> None:
    """Write one workflow command per finding, and per file that cannot be read."""
    printer = printing.Printer(stream)
    for item in outcome.unreadable:
        where = {"line": item.line} if not item.cell else {}
        printer.write(_command("error", item.file, where, "unreadable", _reason(item)))
    for finding in outcome.findings:
        level = {"note": "notice"}.get(_level(finding), _level(finding))
        verdict = finding.verdict
        on = f" on TensorFlow {outcome.target.version}"
        title = f"{LABELS[verdict.status]}{on}: {verdict.name}"
        where = {"line": finding.line, "col": finding.column}
        where = {} if finding.cell else where
        printer.write(_command(level, finding.file, where, title, _message(finding)))


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


def sarif(outcome: Outcome, stream: TextIO) -> None:
    """Write a log of SARIF 2.1.0. Its rules are the statuses of the findings."""
    rules = list(LABELS)
    results = [
        {
            "ruleId": finding.verdict.status,
            "ruleIndex": rules.index(finding.verdict.status),
            "level": _level(finding),
            "message": {"text": _message(finding)},
            "locations": [{"physicalLocation": _location(finding)}],
        }
        for finding in outcome.findings
    ]
    driver = {
        "name": "tf-lso check",
        "version": tf_lso.__version__,
        "rules": [
            {"id": rule, "shortDescription": {"text": LABELS[rule]}} for rule in rules
        ],
    }
    notes = [
        {
            "level": "error",
            "message": {"text": _reason(item)},
            "locations": [{"physicalLocation": _location(item)}],
        }
        for item in outcome.unreadable
    ]
    run = {
        "tool": {"driver": driver},
        "invocations": [
            {"executionSuccessful": not notes, "toolExecutionNotifications": notes}
        ],
        "columnKind": "unicodeCodePoints",
        "properties": {"tensorflow": outcome.target.version},
        "results": results,
    }
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    printing.write_json(log, stream)


def _location(item: Finding | Unreadable) -> dict[str, Any]:
    path = pathlib.PurePath(os.path.normpath(item.file))
    quoted = urllib.parse.quote(os.fsencode(path.as_posix()))
    uri = path.as_uri() if path.is_absolute() else quoted
    location: dict[str, Any] = {"artifactLocation": {"uri": uri}}
    if item.line and not item.cell:
        location["region"] = {"startLine": item.line}
        if isinstance(item, Finding):
            location["region"]["startColumn"] = item.column
    return location


def _level(finding: Finding) -> str:
    if finding.fails:
        return "error"
    return "warning" if finding.verdict.status == UNSURE else "note"


def _message(finding: Finding) -> str:
    verdict = finding.verdict
    new = f"{verdict.replacement}: " if verdict.replacement else ""
    return f"{_cell(finding)}{verdict.today} tf_lso: {new}{verdict.tf_lso}"


def _reason(item: Unreadable) -> str:
    return f"{_cell(item)}{item.reason}"


def _cell(item: Finding | Unreadable) -> str:
    """Say where in a notebook it is. The file's own lines are those of its JSON."""
    return f"cell {item.cell}, line {item.line}: " if item.cell else ""
