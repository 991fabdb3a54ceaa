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

from tf_lso import cli, help
from tf_lso.migrate import writing
from tf_lso.migrate.engine import Options

# The items of a finding in the JSON report that explain the finding.
_WORDS = ("today", "replacement", "fix", "why_not")


def run(*arguments):
    """Run `tf-lso` in this process. Return its exit code and what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = cli.main([*map(str, arguments)])
    return code, printed.getvalue()


@contextlib.contextmanager
def _written(source, name):
    with tempfile.TemporaryDirectory() as folder:
        yield write(pathlib.Path(folder, name), source)


def checked(source, *flags, name="program.py"):
    """Return the JSON report of `check --verbose` on a program."""
    with _written(source, name) as path:
        code, printed = run("check", "--verbose", "--format", "json", *flags, path)
    document = json.loads(printed)
    fails = {status_of(one) for one in document["findings"]} & {"breaks", "wrong"}
    assert code == (2 if document["unreadable"] else bool(fails))
    assert code == document["exit_code"]
    return document


def status_of(one):
    """Return the status of a finding, in parentheses if a guard of the program handles it."""
    return f"({one['status']})" if one["guarded"] else one["status"]


def example(rule):
    """Return the program on a rule's page, and the migrated program or ""."""
    (entry,) = (entry for entry in help.entries("rules.md") if entry.name == rule)
    kind, code = re.search(r"```(\w+)\n(.*?)```", entry.text, re.DOTALL).groups()
    if kind == "text":
        return code, ""
    lines = code.splitlines(keepends=True)
    return tuple(
        "".join(line[2:] or "\n" for line in lines if line[0] != mark) for mark in "+-"
    )


def migrated(source, *flags, name="program.py"):
    """Migrate a program. Return the new text, and the `Examined` of the file.

    The function also asserts that the new text is Python, and that a second migration
    changes nothing.
    """
    with _written(source, name) as path:
        given = dict(zip(flags[::2], flags[1::2]))
        select = tuple(filter(None, [given.pop("--select", "")]))
        options = Options(select, given.pop("--like", ""))
        assert not given
        (file,) = writing.migrate([str(path)], options, write=True).files
        new = path.read_bytes()
        assert new == file.new
        assert writing.migrate([str(path)], options).changed == []
    if not name.endswith(".ipynb"):
        compile(new, "migrated", "exec", dont_inherit=True)
    return new.decode(), file


def diff_of(old, new):
    """Return the lines that differ, as a diff shows them, with "-" or "+" at the beginning."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm="")
    return [line for line in list(lines)[2:] if not line.startswith("@@")]


def told(command, program, *flags):
    """Return what a command reports of a program, as pairs of a line and its explanation.

    The lines have the form of the lines in a table. The command is "check" or "gives".
    """
    if command == "check":
        return [
            (
                f"{one['line']}:{one['column']} {one['rule']} {status_of(one)} {one['name']}",
                " ".join(one[key] or "" for key in _WORDS),
            )
            for one in checked(program, *flags)["findings"]
        ]
    new, file = migrated(program, *flags)
    said = [(line, "") for line in diff_of(program, new)]
    for one in file.findings:
        if one.why_not:
            place = f"left {one.line}:{one.column} {one.rule} {one.verdict.name}"
            said.append((place, one.why_not))
    return said + [("installs", why) for why in file.installs]


def table(path):
    """Read a table. Return a dict from "name, header" to (program, header, expected lines).

    A header is a command with its flags.
    """
    found = {}
    for part in re.split(r"^=== ", path.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        name, _, rest = part.partition("\n")
        program, *parts = re.split(r"^--- (.*)\n", rest, flags=re.MULTILINE)
        for header, lines in zip(parts[::2], parts[1::2]):
            case = f"{name}, {header}"
            assert case not in found
            found[case] = program, header, lines.rstrip("\n").splitlines()
    return found


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
