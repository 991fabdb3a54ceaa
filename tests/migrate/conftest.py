"""The command, run in an empty folder."""

import pytest

from tests.source.programs import run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def migrate(folder):
    """Runs the command; returns its exit code and what it printed."""
    return lambda *arguments: run("migrate", *arguments)
