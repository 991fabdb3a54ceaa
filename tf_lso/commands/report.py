"""What `check` and `migrate` print: text for people, JSON, annotations of a workflow."""

import collections
import dataclasses
import json
import os
import textwrap

from tf_lso.commands.programs import Outcome, diff
from tf_lso.source.diagnostics import Diagnostic, Unreadable
from tf_lso.source.lookup import BREAKS, LABELS, UNSURE, WORKS, WRONG, Verdict

_ADVICE = (
    "To run it unmodified: tf-lso run SCRIPT. Or put `import tf_lso; tf_lso.install()` "
    "before its imports.\n"
)
_HINT = "Nothing is written. To change the files: tf-lso migrate --write PATH…\n"


# --- Text for people.


def check_text(outcome: Outcome) -> str:
    """Return what is found, finding by finding, then a summary."""
    target, rows = outcome.target, []
    on = target.version if target.keras_2 else "today"
    for one in outcome.findings:
        verdict = one.verdict
        head = f"{LABELS[verdict.status]}{' (guarded)' if one.guarded else ''}"
        told = {on: verdict.today, "tf_lso": _does(verdict)}
        if verdict.current not in ("", verdict.name):
            told["now"] = verdict.current
        rows.append((one, head, told))
    count = _counted(outcome)
    said = "no use of the legacy loss-scaling API found"
    if outcome.findings:
        wrong = f", {count['wrong']} would train wrong, silently"
        said = _plural(count["findings"], "legacy use") + wrong * bool(count["wrong"])
        said += f", {count['breaks']} would break"
        for word in ("guarded", UNSURE, WORKS):
            said += f", {count[word]} {word}" if count[word] else ""
    read = f"{_plural(count['files'], 'file')} read, for TensorFlow {target.version}"
    failed = f"; {count['unreadable']} unreadable" if outcome.unreadable else ""
    advice = _ADVICE if count["wrong"] or count["breaks"] else ""
    failures = _failures(outcome, "unreadable")
    return "".join([_shown(rows), failures, f"{read}: {said}{failed}.\n", advice])


def migrate_text(outcome: Outcome) -> str:
    """Return the diffs, then what is left, then a summary."""
    parts = [diff(file) for file in outcome.changed]
    parts += "\n" if outcome.changed else ""
    rows = [(one, "left", {"why": one.why, "do": one.do}) for one in outcome.left]
    parts.append(_shown(rows))
    for file in outcome.changed:
        if file.installs:
            parts.append(f"{file.path}: tf_lso.install() is added, for:\n")
            parts.append(f"    {', '.join(file.installs)}\n\n")
    parts.append(_failures(outcome, "left alone"))
    count = _counted(outcome)
    said = "nothing to change"
    if outcome.changed:
        does = "changed" if outcome.written else "would change"
        said = f"{count['changed']} {does}, in {_plural(count['places'], 'place')}"
    if count["left"]:
        said += f"; {_plural(count['left'], 'place')} left"
    if outcome.unreadable:
        said += f"; {_plural(count['unreadable'], 'file')} left alone"
    hint = _HINT if outcome.changed and not outcome.written else ""
    read = f"{_plural(count['files'], 'file')} read: {said}.\n"
    return "".join([*parts, read, hint])


def _shown(rows: list[tuple[Diagnostic, str, dict[str, str]]]) -> str:
    """Return places, each with what is told of it where a place tells it first."""
    lines: list[str] = []
    said: dict[object, int] = {}
    for one, head, told in rows:
        where = _place(one.file, one.cell, one.line, one.column)
        lines += [f"{where}: {one.rule} {head}  {one.name}", f"    {one.code}"]
        first = said.setdefault((one.file, one.cell, *told.values()), one.line)
        if first != one.line:
            lines.append(f"    as in line {first}")
        for label, text in told.items() if first == one.line else ():
            wrapped = textwrap.wrap(text, 76, break_long_words=False)
            lines.append(f"    {label + ':':<8}" + f"\n{' ' * 12}".join(wrapped))
        lines.append("")
    return "\n".join([*lines, ""]) if lines else ""


def _does(verdict: Verdict) -> str:
    """Return what tf_lso does about a use, below its new name."""
    return ": ".join(filter(None, [verdict.replacement, verdict.tf_lso]))


def _failures(outcome: Outcome, label: str) -> str:
    """Return what could not be read."""
    lines = [
        f"{_place(item.file, item.cell, item.line)}: {label}  {item.reason}\n"
        for item in outcome.unreadable
    ]
    return "".join([*lines, "\n"] if lines else [])


def _place(file: str, cell: int | None, *others: int | None) -> str:
    """Return where something is, as `file:cell 3:line:column`, as far as known."""
    parts = [file, f"cell {cell}" if cell else None, *others]
    return ":".join(str(part) for part in parts if part)


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


# --- JSON.

_WHERE = ("file", "cell", "line", "column", "rule", "code", "name")
_VERDICT = ("status", "today", "tf_lso", "current", "replacement")


def _counted(outcome: Outcome) -> dict[str, int]:
    findings = outcome.findings
    status = collections.Counter(one.verdict.status for one in findings)
    fails = collections.Counter(one.verdict.status for one in findings if one.fails)
    return {
        "files": len(outcome.files),
        "findings": len(findings),
        "wrong": fails[WRONG],
        "breaks": fails[BREAKS],
        "guarded": sum(one.guarded for one in findings),
        "works": status[WORKS],
        "unsure": status[UNSURE],
        "changed": len(outcome.changed),
        "places": sum(file.changes for file in outcome.changed),
        "left": len(outcome.left),
        "unreadable": len(outcome.unreadable),
    }


def as_json(outcome: Outcome) -> str:
    """Return all of it as one JSON object, in ASCII."""
    findings = [
        {key: getattr(one, key) for key in (*_WHERE, "kind", "guarded")}
        | {key: getattr(one.verdict, key) for key in _VERDICT}
        | {"fix": one.fix, "why_not": one.why or None}
        for one in outcome.findings
    ]
    left = [
        {key: getattr(one, key) for key in (*_WHERE, "why", "do")}
        for one in outcome.left
    ]
    changed = [
        {"file": file.path, "places": file.changes, "install": file.installs}
        | {"diff": diff(file)}
        for file in outcome.changed
    ]
    document = {
        "version": 1,
        "target": outcome.target.version,
        "written": outcome.written,
        "findings": findings,
        "changed": changed,
        "left": left,
        "unreadable": [dataclasses.asdict(item) for item in outcome.unreadable],
        "summary": {**_counted(outcome), "exit_code": outcome.exit_code},
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


# --- Annotations.


def github(outcome: Outcome) -> str:
    """Return one workflow command per finding, and per file that cannot be read.

    https://docs.github.com/actions/reference/workflow-commands-for-github-actions
    """
    lines = [
        _command("error", item, "unreadable", item.reason)
        for item in outcome.unreadable
    ]
    for one in outcome.findings:
        verdict = one.verdict
        level = "warning" if verdict.status == UNSURE else "notice"
        label = f"{LABELS[verdict.status]} on TensorFlow {outcome.target.version}"
        title = f"{one.rule} {label}: {verdict.name}"
        message = f"{verdict.today} tf_lso: {_does(verdict)}"
        lines.append(_command("error" if one.fails else level, one, title, message))
    return "".join(lines)


def _command(
    level: str, item: Diagnostic | Unreadable, title: str, message: str
) -> str:
    where = {"line": item.line, "col": getattr(item, "column", None)}
    if item.cell:  # the file's own lines are those of its JSON
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
