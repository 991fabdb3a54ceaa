"""Check and migrate small programs.

The files in `tests/migrate/rules` have lists of programs. A program in `LEFT_ALONE` stands next
to what `check` reports of it, such as "3:12 LSO108 unsure", and `migrate` does not change it. A
status in parentheses means that a guard of the program handles the use. A program in
`REWRITTEN` stands next to the program that `migrate` makes of it.
"""

import contextlib
import io
import json
import pathlib
import re
import subprocess
import tempfile

from tf_lso import cli, help
from tf_lso.migrate import engine, writing
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


def migrated(source):
    """Migrate a program. Return the new text, and the `Examined` of the file.

    The function also asserts that the new text is Python, and that a second migration
    changes nothing.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = write(pathlib.Path(folder, "program.py"), source)
        (file,) = writing.migrate([str(path)], Options(), write=True).files
        new = path.read_bytes()
        assert new == file.new
        assert writing.migrate([str(path)], Options()).changed == []
    compile(new, "migrated", "exec", dont_inherit=True)
    return new.decode(), file


def reported_problems(program, *flags):
    """Return what `check` reports of a program, as texts such as "3:12 LSO108 unsure".

    Uses that work as before are left out.
    """
    return [
        f"{found['line']}:{found['column']} {found['rule']} {status_of(found)}"
        for found in checked(program, *flags)["findings"]
        if found["status"] != "works"
    ]


def left_by_migrate(file):
    """Return the problems that `migrate` lists in an `Examined`, as "3:12 LSO108"."""
    return [
        f"{found.line}:{found.column} {found.rule}"
        for found in file.findings
        if found.why_not and found.is_problem
    ]


def assert_left_alone(program, found):
    """Assert that `check` reports `found`, and that `migrate` lists it and changes nothing."""
    assert reported_problems(program) == found
    new, file = migrated(program)
    assert new == program
    listed = left_by_migrate(file)
    assert all(text.rpartition(" ")[0] in listed for text in found if "(" not in text)


def assert_rewritten(before, after, listed=(), rule=""):
    """Assert that `migrate` turns a program into another, and lists some uses.

    Each use that fails must be rewritten or listed, and nothing in the new program may have a
    fix. `rule` must be among the rules that `check` reports.
    """
    new, file = migrated(before)
    assert new == after
    assert left_by_migrate(file) == list(listed)
    assert all(found.fix or found.why_not for found in file.findings if found.fails)
    again = engine.examine(new, Options())
    assert [found for found in again.findings if found.fix] == []
    assert rule in " ".join(reported_problems(before))


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
