"""Write the results of `tf-lso check` as JSON or as GitHub annotations."""

import dataclasses
import json
import os

from tf_lso.migrate.files import Outcome
from tf_lso.migrate.findings import LABELS, UNSURE, Finding, Unreadable
from tf_lso.migrate.report import Style

_WHERE = ("file", "cell", "line", "column", "rule", "code", "guarded", "fix", "why_not")


def as_json(outcome: Outcome, style: Style) -> str:
    """Return the results of `check` as the text of one JSON object, in ASCII."""
    findings = [
        {key: getattr(found, key) for key in _WHERE} | dataclasses.asdict(found.verdict)
        for found in outcome.findings
        if style.verbose or found.is_problem
    ]
    document = {
        "version": 4,
        "like": outcome.options.like or None,
        "files": len(outcome.files),
        "findings": findings,
        "unreadable": [dataclasses.asdict(item) for item in outcome.unreadable],
        "exit_code": outcome.exit_code,
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def github(outcome: Outcome, style: Style) -> str:
    """Return a GitHub workflow command for each finding and each unreadable file.

    https://docs.github.com/actions/reference/workflow-commands-for-github-actions
    """
    lines = [
        _command("error", item, "unreadable", item.reason)
        for item in outcome.unreadable
    ]
    for found in outcome.findings:
        if style.verbose or found.is_problem:
            verdict = found.verdict
            level = "warning" if verdict.status == UNSURE else "notice"
            level = "error" if found.fails else level
            title = f"{found.rule} {LABELS[verdict.status]}: {verdict.name}"
            fix = f" Fix: {found.fix}." if found.fix else f" {found.why_not}".rstrip()
            lines.append(_command(level, found, title, f"{verdict.today}{fix}"))
    return "".join(lines)


def _command(level: str, item: Finding | Unreadable, title: str, message: str) -> str:
    where = {"line": item.line, "col": getattr(item, "column", None)}
    if item.cell:
        # Leave out the line and the column, because both are positions in the cell. GitHub
        # would look for these positions in the JSON text of the notebook.
        message = f"cell {item.cell}, line {item.line}: {message}"
        where = {}
    properties = {"file": os.path.normpath(item.file), **where, "title": title}
    listed = (
        f"{name}={_escaped(str(value)).replace(':', '%3A').replace(',', '%2C')}"
        for name, value in properties.items()
        if value is not None
    )
    return f"::{level} {','.join(listed)}::{_escaped(message)}\n"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
