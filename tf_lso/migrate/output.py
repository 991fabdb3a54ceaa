"""Write the reports of `tf-lso check` and `tf-lso migrate`."""

import collections
import dataclasses
import json
import textwrap

from tf_lso.migrate import added_imports
from tf_lso.migrate.findings import WRONG, Finding
from tf_lso.migrate.reading_files import Outcome
from tf_lso.migrate.writing import diff
from tf_lso.names import runtimes

_WHERE = ("file", "cell", "line", "column", "rule", "code", "guarded", "fix", "why_not")


def check_text(outcome: Outcome, verbose: bool) -> str:
    shown = [found for found in outcome.findings if verbose or found.is_problem]
    parts = [_shown(found, _label(found)) for found in shown]
    parts.append(_failures(outcome, "unreadable"))
    summary = "no use of the legacy loss-scaling API found"
    if outcome.findings:
        breaks = sum(found.fails for found in outcome.findings)
        summary = _plural(len(outcome.findings), "legacy use")
        summary += f", {breaks} would break or train wrong"
        summary += _guarded(outcome.findings)
    if len(shown) < len(outcome.findings):
        summary += " (--verbose shows what works)"
    if outcome.unreadable:
        summary += f"; {len(outcome.unreadable)} unreadable"
    parts.append(f"{_plural(len(outcome.files), 'file')} read: {summary}.\n")
    counts = collections.Counter(found.rule for found in shown)
    if counts:
        rules = ", ".join(f"{rule} {counts[rule]}" for rule in sorted(counts))
        parts.append(f"{rules}. To explain a rule: tf-lso check --explain RULE\n")
    return "".join([*parts, _closing(outcome)])


def check_json(outcome: Outcome, verbose: bool) -> str:
    """Return the results of `tf-lso check` as the text of one JSON object, in ASCII."""
    findings = [
        {key: getattr(found, key) for key in _WHERE}
        | dataclasses.asdict(found.consequence)
        for found in outcome.findings
        if verbose or found.is_problem
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


def migrate_text(outcome: Outcome, verbose: bool) -> str:
    left = [found for found in outcome.left if verbose or found.is_problem]
    parts = [diffs(outcome), "\n" if outcome.changed else ""]
    parts += [_shown(found, "left" + " (guarded)" * found.guarded) for found in left]
    parts += [_installs(outcome), _failures(outcome, "left alone")]
    summary = "nothing to change"
    if outcome.changed:
        verb = "changed" if outcome.written else "would change"
        places = sum(file.places for file in outcome.changed)
        summary = f"{len(outcome.changed)} {verb}, in {_plural(places, 'place')}"
    if left:
        summary += f"; {_plural(len(left), 'place')} left{_guarded(left)}"
    if outcome.unreadable:
        summary += f"; {len(outcome.unreadable)} left alone"
    parts.append(f"{_plural(len(outcome.files), 'file')} read: {summary}.\n")
    if outcome.changed and not outcome.written:
        parts.append("Nothing is written. Add --write to change the files.\n")
    return "".join([*parts, _closing(outcome)])


def diffs(outcome: Outcome) -> str:
    return "".join(map(diff, outcome.changed))


def _closing(outcome: Outcome) -> str:
    like = outcome.options.like
    version = like or "VERSION"
    line = (
        "Only loss scaling was checked. For other changes of Keras 3: tf-lso run --like "
        f"{version} SCRIPT, or {added_imports.line(version)} in a notebook"
    )
    if like and runtimes.like(like).keras_2:
        line += "; `import keras` is then the Keras of tf.keras"
    return f"{line}\n"


def _installs(outcome: Outcome) -> str:
    lines = []
    for file in outcome.files:
        if file.installs and file.entry:
            where = f"needs tf_lso.install() in {file.entry}"
        elif file.installs and file in outcome.changed:
            where = f"{added_imports.line(outcome.options.like)} is added"
        else:
            continue
        lines.append(f"{file.path}: {where}, for:\n    {', '.join(file.installs)}\n\n")
    return "".join(lines)


def _guarded(findings: list[Finding]) -> str:
    guarded = sum(found.guarded and found.is_problem for found in findings)
    return f", {guarded} guarded" if guarded else ""


def _label(found: Finding) -> str:
    status = found.consequence.status
    label = "trains wrong, silently" if status == WRONG else status
    return label + " (guarded)" * found.guarded


def _shown(found: Finding, label: str) -> str:
    position = location(found.file, found.cell, found.line, found.column)
    head = f"{position}: {found.rule} {label}  {found.consequence.name}"
    lines = [head, f"    {found.code}"]
    texts = {"today": found.consequence.today, "fix": found.fix, "why": found.why_not}
    for name, text in texts.items():
        wrapped = textwrap.wrap(text, 76, break_long_words=False)
        if wrapped:
            lines.append(f"    {name + ':':<7}" + f"\n{' ' * 11}".join(wrapped))
    return "\n".join([*lines, "", ""])


def _failures(outcome: Outcome, label: str) -> str:
    lines = [
        f"{location(item.file, item.cell, item.line)}: {label}  {item.reason}\n"
        for item in outcome.unreadable
    ]
    return "".join([*lines, "\n"] if lines else [])


def location(file: str, cell: int | None, *others: int | None) -> str:
    """Return a position such as `file:cell 3:line:column`, without parts that are None."""
    parts = [file, f"cell {cell}" if cell else None, *others]
    return ":".join(str(part) for part in parts if part)


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
