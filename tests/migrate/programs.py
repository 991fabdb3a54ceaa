"""Check and migrate small programs, and read tables of programs.

A table is a text file of cases. Each case has a name, a program, and a command with its
flags. The lines after the command are what the command must report:

    === a name for the case
    import tensorflow as tf
    tf.keras.mixed_precision.experimental.Policy("float32")
    --- check --like 2.4
    2:1 LSO101 breaks tf.keras.mixed_precision.experimental.Policy ~ had it ~ tf_lso
    --- gives
    -import tensorflow as tf
    ...

The command `gives` stands for `migrate`. Its lines are the lines that `migrate` removes and
adds, then a line `left ...` for each place that `migrate` leaves to a person, and a line
`installs ...` for each reason to add `tf_lso.install()`. After ` ~ ` follow words that the
explanation in the report must contain.
"""

import contextlib
import difflib
import io
import json
import pathlib
import re
import subprocess
import tempfile
from typing import NamedTuple

from tf_lso import cli, help
from tf_lso.migrate import writing
from tf_lso.migrate.engine import Options


def run(*arguments):
    """Run `tf-lso` in this process. Return its exit code and what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = cli.main([*map(str, arguments)])
    return code, printed.getvalue()


def checked(source, *flags, name="program.py"):
    """Return the JSON report of `check --verbose` on a program.

    The function also asserts that the exit code is right.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = write(pathlib.Path(folder, name), source)
        code, printed = run("check", "--verbose", "--format", "json", *flags, path)
    report = json.loads(printed)
    statuses = {status_of(finding) for finding in report["findings"]}
    if report["unreadable"]:
        assert code == 2
    elif statuses & {"breaks", "wrong"}:
        assert code == 1
    else:
        assert code == 0
    assert report["exit_code"] == code
    return report


def status_of(finding):
    """Return the status of a finding, in parentheses if a guard of the program handles it."""
    return f"({finding['status']})" if finding["guarded"] else finding["status"]


def example(rule):
    """Return the program in a rule's entry of rules.md, and the migrated program or "".

    The entry contains either the program, or a diff of the program and the migrated program.
    """
    (entry,) = [entry for entry in help.entries("rules.md") if entry.name == rule]
    kind, code = re.search(r"```(\w+)\n(.*?)```", entry.text, re.DOTALL).groups()
    if kind == "text":
        return code, ""
    before, after = "", ""
    for line in code.splitlines(keepends=True):
        mark, text = line[0], line[2:] or "\n"  # an empty line has no mark
        if mark != "+":
            before += text
        if mark != "-":
            after += text
    return before, after


def migrated(source, *flags, name="program.py"):
    """Migrate a program. Return the new text, and the `Examined` of the file.

    The function also asserts that the new text is Python, and that a second migration
    changes nothing.
    """
    values = dict(
        zip(flags[::2], flags[1::2], strict=True)
    )  # such as {"--like": "2.4"}
    assert values.keys() <= {"--select", "--like"}
    select = (values["--select"],) if "--select" in values else ()
    options = Options(select, values.get("--like", ""))
    with tempfile.TemporaryDirectory() as folder:
        path = write(pathlib.Path(folder, name), source)
        (file,) = writing.migrate([str(path)], options, write=True).files
        new = path.read_bytes()
        assert new == file.new
        assert writing.migrate([str(path)], options).changed == []
    if not name.endswith(".ipynb"):
        compile(new, "migrated", "exec", dont_inherit=True)
    return new.decode(), file


def reported_by_check(program, *flags):
    """Return what `check` reports of a program, as pairs of a line and its explanation.

    The lines have the form of the lines in a table.
    """
    pairs = []
    for finding in checked(program, *flags)["findings"]:
        position = f"{finding['line']}:{finding['column']}"
        status = status_of(finding)
        line = f"{position} {finding['rule']} {status} {finding['name']}"
        parts = [finding[key] for key in ("today", "replacement", "fix", "why_not")]
        pairs.append((line, " ".join(filter(None, parts))))
    return pairs


def reported_by_migrate(program, *flags):
    """Return what `migrate` changes and reports, as pairs of a line and its explanation.

    The lines have the form of the lines in a table. Changed lines have no explanation.
    """
    new, file = migrated(program, *flags)
    pairs = [(line, "") for line in changed_lines(program, new)]
    for finding in file.findings:
        if finding.why_not:
            position = f"{finding.line}:{finding.column}"
            line = f"left {position} {finding.rule} {finding.verdict.name}"
            pairs.append((line, finding.why_not))
    return pairs + [("installs", why) for why in file.installs]


def changed_lines(old, new):
    """Return the lines that differ, as a diff shows them, with "-" or "+" at the beginning."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm="")
    return [line for line in list(lines)[2:] if not line.startswith("@@")]


class Case(NamedTuple):
    """A program in a table, and what a command must report of it."""

    program: str
    header: str  # the command with its flags
    expected: list  # of str, the lines after the header


def read_table(path):
    """Return the cases of a table as a dict. Its keys have the form "NAME, HEADER"."""
    cases = {}
    for part in re.split(r"^=== ", path.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        name, _, rest = part.partition("\n")
        program, *parts = re.split(r"^--- (.*)\n", rest, flags=re.MULTILINE)
        for header, lines in zip(parts[::2], parts[1::2], strict=True):
            key = f"{name}, {header}"
            assert key not in cases
            cases[key] = Case(program, header, lines.rstrip("\n").splitlines())
    return cases


def notebook(*sources, **metadata):
    """Return the text of a notebook. Each source is the text of a code cell, or a cell."""
    cells = []
    for source in sources:
        if isinstance(source, str):
            source = {"cell_type": "code", "source": source.splitlines(keepends=True)}
        cells.append(source)
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4})


def write(name, data):
    """Write a file of text or bytes. Return its path."""
    path = pathlib.Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def git(*arguments):
    """Run git."""
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    subprocess.run(command, check=True, capture_output=True)
