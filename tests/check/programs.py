"""Writes small programs and checks them."""

import argparse
import contextlib
import io
import json
import pathlib
import tempfile
import textwrap

from tf_lso import check


def outcome_of(source, name="program.py"):
    """Returns the `Outcome` of a program given as text or bytes."""
    if isinstance(source, str):
        source = textwrap.dedent(source).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, name)
        path.write_bytes(source)
        return check.check([str(path)])


def rows(source, name="program.py"):
    """Returns "line name status" of each finding; a guarded status stands in ()."""
    outcome = outcome_of(source, name)
    assert outcome.unreadable == []
    return [
        f"{f.line} {f.verdict.name} "
        + (f"({f.verdict.status})" if f.guarded else f.verdict.status)
        for f in outcome.findings
    ]


def notebook(*sources, kind="code", **metadata):
    """Returns the bytes of a notebook with a cell for each source."""
    cells = [
        source
        if isinstance(source, dict)
        else {"cell_type": kind, "source": source.splitlines(keepends=True)}
        for source in sources
    ]
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4}).encode()


def run(*arguments):
    """Runs the command; returns its exit code and what it printed."""
    parser = argparse.ArgumentParser(prog="tf-lso check")
    check.add_arguments(parser)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = check.run(parser.parse_args([str(a) for a in arguments]))
    return code, printed.getvalue()
