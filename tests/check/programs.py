"""Writes small programs and checks them."""

import contextlib
import io
import json
import pathlib
import re
import tempfile
import textwrap

from tf_lso import cli
from tf_lso.commands import check, help
from tf_lso.names import targets


def outcome_of(source, name="program.py", target=targets.TODAY):
    """Returns the `Outcome` of a program given as text or bytes, on a target."""
    if isinstance(source, str):
        source = textwrap.dedent(source).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, name)
        path.write_bytes(source)
        return check.check([str(path)], target)


def rows(source, name="program.py", target=targets.TODAY):
    """Returns "line name status" of each finding; a guarded status stands in ()."""
    outcome = outcome_of(source, name, target)
    assert outcome.unreadable == []
    return [
        f"{f.line} {f.verdict.name} "
        + (f"({f.verdict.status})" if f.guarded else f.verdict.status)
        for f in outcome.findings
    ]


def example(rule):
    """Returns what stands on the page as a rule's example: the program, its migration."""
    (entry,) = (entry for entry in help.entries("rules.md") if entry.name == rule)
    kind, code = re.search(r"```(\w+)\n(.*?)```", entry.text, re.DOTALL).groups()
    if kind == "text":
        return code, ""
    lines = code.splitlines(keepends=True)
    return tuple(
        "".join(line[2:] or "\n" for line in lines if line[0] != mark) for mark in "+-"
    )


def notebook(*sources, kind="code", **metadata):
    """Returns the bytes of a notebook with a cell for each source."""
    cells = [
        source
        if isinstance(source, dict)
        else {"cell_type": kind, "source": source.splitlines(keepends=True)}
        for source in sources
    ]
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4}).encode()


def run(*arguments, target="2.21"):
    """Runs the command; returns its exit code and what it printed.

    The target is the installed TensorFlow where it is None.
    """
    given = [*map(str, arguments), *(["--target", target] if target else [])]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = cli.main(["check", *given])
    return code, printed.getvalue()
