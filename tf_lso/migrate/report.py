"""Write the reports of `tf-lso check` and `tf-lso migrate`."""

import dataclasses
import json
import os
import re
import sys
import textwrap
from typing import NamedTuple

from tf_lso.migrate.files import STDIN, Outcome
from tf_lso.migrate.findings import LABELS, Finding
from tf_lso.migrate.writing import diff

_RED, _GREEN, _YELLOW, _BOLD = "31", "32", "33", "1"
# The attributes of a finding in the JSON report.
_WHERE = ("file", "cell", "line", "column", "rule", "code", "guarded", "fix", "why_not")
_COLOURS = {"wrong": _RED, "breaks": _RED, "unsure": _YELLOW, "works": _GREEN}


class Style(NamedTuple):
    """The style of a report.

    Attributes:
      colour: whether the report has colors.
      verbose: whether the report also contains old names that still work.
    """

    colour: bool = False
    verbose: bool = False

    def paint(self, text: str, colour: str) -> str:
        """Return `text` with the codes of a color, or unchanged if the report has no colors."""
        return f"\033[{colour}m{text}\033[0m" if self.colour and text else text


def wants_colour() -> bool:
    """Return whether stdout is a terminal and no environment variable forbids colors."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not plain and sys.stdout is not None and sys.stdout.isatty()


def check_text(outcome: Outcome, style: Style) -> str:
    """Return the report of `tf-lso check`: the findings and a summary."""
    shown = [f for f in outcome.findings if style.verbose or f.is_problem]
    parts = [_shown(found, _label(found, style), style) for found in shown]
    parts.append(_failures(outcome, "unreadable", style))
    summary = "no use of the legacy loss-scaling API found"
    if outcome.findings:
        breaks = sum(found.fails for found in outcome.findings)
        summary = _plural(len(outcome.findings), "legacy use")
        summary += f", {breaks} would break or train wrong"
    if len(shown) < len(outcome.findings):
        summary += " (--verbose shows what works)"
    if outcome.unreadable:
        summary += f"; {len(outcome.unreadable)} unreadable"
    parts.append(f"{_plural(len(outcome.files), 'file')} read: {summary}.\n")
    return "".join([*parts, closing(outcome)])


def check_json(outcome: Outcome, style: Style) -> str:
    """Return the results of `tf-lso check` as the text of one JSON object, in ASCII."""
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


def migrate_text(outcome: Outcome, style: Style) -> str:
    """Return the report of `tf-lso migrate`: diffs, remaining findings and a summary."""
    left = [found for found in outcome.left if style.verbose or found.is_problem]
    parts = [painted_diff(outcome, style), "\n" if outcome.changed else ""]
    parts += [_shown(found, style.paint("left", _YELLOW), style) for found in left]
    parts += [_installs(outcome), _failures(outcome, "left alone", style)]
    summary = "nothing to change"
    if outcome.changed:
        verb = "changed" if outcome.written else "would change"
        places = sum(file.places for file in outcome.changed)
        summary = f"{len(outcome.changed)} {verb}, in {_plural(places, 'place')}"
    if left:
        summary += f"; {_plural(len(left), 'place')} left"
    if outcome.unreadable:
        summary += f"; {_plural(len(outcome.unreadable), 'file')} left alone"
    parts.append(f"{_plural(len(outcome.files), 'file')} read: {summary}.\n")
    if outcome.changed and not outcome.written:
        parts.append("Nothing is written. Add --write to change the files.\n")
    return "".join([*parts, closing(outcome)])


def painted_diff(outcome: Outcome, style: Style) -> str:
    """Return the diffs of all files that change, in colors if the style has colors."""
    text = "".join(map(diff, outcome.changed))
    if style.colour:
        text = re.sub("(?m)^-.*$", lambda found: style.paint(found[0], _RED), text)
        text = re.sub(r"(?m)^\+.*$", lambda found: style.paint(found[0], _GREEN), text)
    return text


def closing(outcome: Outcome) -> str:
    """Return the last line of a report.

    The line says that only loss scaling was checked, and which commands help with other changes
    of Keras 3.
    """
    version = outcome.options.like or "VERSION"
    scripts = [file.path for file in outcome.files if not file.notebook]
    commands = []
    if scripts or not outcome.files:
        is_one = len(scripts) == 1 and scripts[0] != STDIN
        commands.append(
            f"tf-lso run --like {version} {scripts[0] if is_one else 'SCRIPT'}"
        )
    if len(scripts) < len(outcome.files):
        call = f'import tf_lso; tf_lso.install(like="{version}")'
        commands.append(f"`{call}` in the first cell of the notebook")
    ways = ", or ".join(commands)
    return f"Only loss scaling was checked. For other changes of Keras 3: {ways}\n"


def _installs(outcome: Outcome) -> str:
    """Return lines that say for which files `install()` is necessary, and why.

    For each file, the lines say whether `migrate` adds the call, or in which other program a
    person must add it.
    """
    lines = []
    for file in outcome.files:
        if file.installs and file.entry:
            where = f"needs tf_lso.install() in {file.entry}"
        elif file.installs and file in outcome.changed:
            where = "tf_lso.install() is added"
        else:
            continue
        lines.append(f"{file.path}: {where}, for:\n    {', '.join(file.installs)}\n\n")
    return "".join(lines)


def _label(found: Finding, style: Style) -> str:
    status = found.verdict.status
    label = style.paint(LABELS[status], _COLOURS[status])
    return label + " (guarded)" * found.guarded


def _shown(found: Finding, label: str, style: Style) -> str:
    """Return the lines for a finding: its position, what happens today, and the fix."""
    position = location(found.file, found.cell, found.line, found.column)
    head = f"{style.paint(position, _BOLD)}: {found.rule} {label}  {found.verdict.name}"
    lines = [head, f"    {found.code}"]
    texts = {"today": found.verdict.today, "fix": found.fix, "why": found.why_not}
    for name, text in texts.items():
        wrapped = textwrap.wrap(text, 76, break_long_words=False)
        if wrapped:
            lines.append(f"    {name + ':':<7}" + f"\n{' ' * 11}".join(wrapped))
    return "\n".join([*lines, "", ""])


def _failures(outcome: Outcome, label: str, style: Style) -> str:
    """Return a line for each file or cell that could not be read or written."""
    painted = style.paint(label, _RED)
    lines = [
        f"{location(item.file, item.cell, item.line)}: {painted}  {item.reason}\n"
        for item in outcome.unreadable
    ]
    return "".join([*lines, "\n"] if lines else [])


def location(file: str, cell: int | None, *others: int | None) -> str:
    """Return a position such as `file:cell 3:line:column`, without parts that are None."""
    parts = [file, f"cell {cell}" if cell else None, *others]
    return ":".join(str(part) for part in parts if part)


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
