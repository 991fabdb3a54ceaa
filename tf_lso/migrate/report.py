"""What `check` and `migrate` print for people."""

import os
import re
import sys
import textwrap
from typing import NamedTuple

from tf_lso.migrate.files import STDIN, Outcome
from tf_lso.migrate.findings import LABELS, Finding
from tf_lso.migrate.writing import diff

_RED, _GREEN, _YELLOW, _BOLD = "31", "32", "33", "1"
_COLOURS = {"wrong": _RED, "breaks": _RED, "unsure": _YELLOW, "works": _GREEN}


class Style(NamedTuple):
    """How a report looks.

    Attributes:
      colour: whether it has colours.
      verbose: whether it has what works, too.
    """

    colour: bool = False
    verbose: bool = False

    def paint(self, text: str, colour: str) -> str:
        """Return a text in a colour."""
        return f"\033[{colour}m{text}\033[0m" if self.colour and text else text


def wants_colour() -> bool:
    """Whether the output is a terminal, and nothing asks for plain text."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not plain and sys.stdout is not None and sys.stdout.isatty()


def check_text(outcome: Outcome, style: Style) -> str:
    """Return what is found, finding by finding, then a summary."""
    shown = [one for one in outcome.findings if style.verbose or one.is_problem]
    parts = [_shown(one, _label(one, style), style) for one in shown]
    parts.append(_failures(outcome, "unreadable", style))
    summary = "no use of the legacy loss-scaling API found"
    if outcome.findings:
        breaks = sum(one.fails for one in outcome.findings)
        summary = _plural(len(outcome.findings), "legacy use")
        summary += f", {breaks} would break or train wrong"
    if len(shown) < len(outcome.findings):
        summary += " (--verbose shows what works)"
    if outcome.unreadable:
        summary += f"; {len(outcome.unreadable)} unreadable"
    parts.append(f"{_plural(len(outcome.files), 'file')} read: {summary}.\n")
    return "".join([*parts, closing(outcome)])


def migrate_text(outcome: Outcome, style: Style) -> str:
    """Return the diffs, then what is left, then a summary."""
    left = [one for one in outcome.left if style.verbose or one.is_problem]
    parts = [painted_diff(outcome, style), "\n" if outcome.changed else ""]
    parts += [_shown(one, style.paint("left", _YELLOW), style) for one in left]
    parts += [_installs(outcome), _failures(outcome, "left alone", style)]
    summary = "nothing to change"
    if outcome.changed:
        does = "changed" if outcome.written else "would change"
        places = sum(file.places for file in outcome.changed)
        summary = f"{len(outcome.changed)} {does}, in {_plural(places, 'place')}"
    if left:
        summary += f"; {_plural(len(left), 'place')} left"
    if outcome.unreadable:
        summary += f"; {_plural(len(outcome.unreadable), 'file')} left alone"
    parts.append(f"{_plural(len(outcome.files), 'file')} read: {summary}.\n")
    if outcome.changed and not outcome.written:
        given = " ".join(["tf-lso migrate --write", *_given(outcome), "PATH…"])
        parts.append(f"Nothing is written. To change the files: {given}\n")
    return "".join([*parts, closing(outcome)])


def painted_diff(outcome: Outcome, style: Style) -> str:
    """Return the diffs of all files that change."""
    text = "".join(map(diff, outcome.changed))
    if style.colour:
        text = re.sub("(?m)^-.*$", lambda found: style.paint(found[0], _RED), text)
        text = re.sub(r"(?m)^\+.*$", lambda found: style.paint(found[0], _GREEN), text)
    return text


def closing(outcome: Outcome) -> str:
    """Return what was not looked at, and the command for it."""
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


def _given(outcome: Outcome) -> list[str]:
    options = outcome.options
    given = ["--like", options.like] if options.like else []
    return given + (["--select", ",".join(options.select)] if options.select else [])


def _installs(outcome: Outcome) -> str:
    """Return where `install()` is added or needed, and what for."""
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


def _label(one: Finding, style: Style) -> str:
    status = one.verdict.status
    label = style.paint(LABELS[status], _COLOURS[status])
    return label + " (guarded)" * one.guarded


def _shown(one: Finding, label: str, style: Style) -> str:
    """Return one finding: where it is, what happens today, and the fix or why not."""
    where = style.paint(place(one.file, one.cell, one.line, one.column), _BOLD)
    lines = [f"{where}: {one.rule} {label}  {one.verdict.name}", f"    {one.code}"]
    details = {"today": one.verdict.today, "fix": one.fix, "why": one.why_not}
    for name, text in details.items():
        wrapped = textwrap.wrap(text, 76, break_long_words=False)
        if wrapped:
            lines.append(f"    {name + ':':<7}" + f"\n{' ' * 11}".join(wrapped))
    return "\n".join([*lines, "", ""])


def _failures(outcome: Outcome, label: str, style: Style) -> str:
    """Return what could not be read."""
    painted = style.paint(label, _RED)
    lines = [
        f"{place(item.file, item.cell, item.line)}: {painted}  {item.reason}\n"
        for item in outcome.unreadable
    ]
    return "".join([*lines, "\n"] if lines else [])


def place(file: str, cell: int | None, *others: int | None) -> str:
    """Return where something is, as `file:cell 3:line:column`, as far as known."""
    parts = [file, f"cell {cell}" if cell else None, *others]
    return ":".join(str(part) for part in parts if part)


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
