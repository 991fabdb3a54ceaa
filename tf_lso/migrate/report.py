"""What `check` and `migrate` print for people."""

import os
import re
import sys
import textwrap
from typing import NamedTuple

from tf_lso.migrate.counting import counted
from tf_lso.migrate.files import STDIN, Outcome
from tf_lso.migrate.findings import LABELS, UNSURE, WORKS, Finding, Verdict
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
    rows = []
    for one in shown:
        verdict = one.verdict
        told = {"today": verdict.today, "tf_lso": _does(verdict)}
        if verdict.current not in ("", verdict.name):
            told["now"] = verdict.current
        rows.append((one, _head(one, style), told))
    count = counted(outcome)
    said = "no use of the legacy loss-scaling API found"
    if outcome.findings:
        wrong = f", {count['wrong']} would train wrong, silently"
        said = _plural(count["findings"], "legacy use") + wrong * bool(count["wrong"])
        said += f", {count['breaks']} would break"
        for word in ("guarded", UNSURE, WORKS):
            said += f", {count[word]} {word}" if count[word] else ""
    hidden = len(shown) < len(outcome.findings)
    said += " (--verbose shows what works)" * hidden
    failed = f"; {count['unreadable']} unreadable" if outcome.unreadable else ""
    read = f"{_plural(count['files'], 'file')} read: {said}{failed}.\n"
    failures = _failures(outcome, "unreadable", style)
    breaks = count["wrong"] or count["breaks"]
    advice = _advice(outcome) if breaks and not outcome.options.like else ""
    return "".join([_shown(rows, style), failures, read, advice, closing(outcome)])


def migrate_text(outcome: Outcome, style: Style) -> str:
    """Return the diffs, then what is left, then a summary."""
    parts = [painted_diff(outcome, style), "\n" if outcome.changed else ""]
    rows = [
        (one, style.paint("left", _YELLOW), {"why": one.why_not})
        for one in outcome.left
        if style.verbose or one.is_problem
    ]
    parts.append(_shown(rows, style))
    parts += [_installs(outcome), _failures(outcome, "left alone", style)]
    count = counted(outcome)
    said = "nothing to change"
    if outcome.changed:
        does = "changed" if outcome.written else "would change"
        said = f"{count['changed']} {does}, in {_plural(count['places'], 'place')}"
    if rows:
        said += f"; {_plural(len(rows), 'place')} left"
    if outcome.unreadable:
        said += f"; {_plural(count['unreadable'], 'file')} left alone"
    parts.append(f"{_plural(count['files'], 'file')} read: {said}.\n")
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


# --- The last lines.


def closing(outcome: Outcome) -> str:
    """Return what was not looked at, and the command for it."""
    version = outcome.options.like or "VERSION"
    commands = []
    notebooks = [file for file in outcome.files if file.notebook]
    if len(notebooks) < len(outcome.files) or not notebooks:
        commands.append(f"tf-lso run --like {version} {_script(outcome)}")
    if notebooks:
        call = f'import tf_lso; tf_lso.install(like="{version}")'
        commands.append(f"`{call}` in the first cell of the notebook")
    ways = ", or ".join(commands)
    return f"Only loss scaling was checked. For other changes of Keras 3: {ways}\n"


def _advice(outcome: Outcome) -> str:
    """Return how to run the program unmodified."""
    if outcome.files and all(file.notebook for file in outcome.files):
        return "To run it unmodified: `import tf_lso; tf_lso.install()` in its first cell\n"
    return (
        f"To run it unmodified: tf-lso run {_script(outcome)}, or "
        "`import tf_lso; tf_lso.install()` before its imports\n"
    )


def _script(outcome: Outcome) -> str:
    """Return the one script that was looked at, or a word for it."""
    scripts = [file.path for file in outcome.files if not file.notebook]
    return scripts[0] if len(scripts) == 1 and scripts[0] != STDIN else "SCRIPT"


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


# --- Findings.


def _head(one: Finding, style: Style) -> str:
    status = one.verdict.status
    label = style.paint(LABELS[status], _COLOURS[status])
    return label + " (guarded)" * one.guarded


def _does(verdict: Verdict) -> str:
    """Return what tf_lso does about a use, below its new name."""
    return ": ".join(filter(None, [verdict.replacement, verdict.tf_lso]))


def _shown(rows: list[tuple[Finding, str, dict[str, str]]], style: Style) -> str:
    """Return places, each with what is said about it where it is said first."""
    lines: list[str] = []
    said: dict[object, int] = {}
    for one, head, told in rows:
        where = style.paint(place(one.file, one.cell, one.line, one.column), _BOLD)
        lines += [f"{where}: {one.rule} {head}  {one.verdict.name}", f"    {one.code}"]
        first = said.setdefault((one.file, one.cell, *told.values()), one.line)
        if first != one.line:
            lines.append(f"    as in line {first}")
        for label, text in told.items() if first == one.line else ():
            wrapped = textwrap.wrap(text, 76, break_long_words=False)
            if wrapped:
                lines.append(f"    {label + ':':<8}" + f"\n{' ' * 12}".join(wrapped))
        lines.append("")
    return "\n".join([*lines, ""]) if lines else ""


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
