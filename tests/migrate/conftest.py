"""The command, run in an empty folder."""

import pytest

from tf_lso import cli


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def migrate(folder, capsys):
    """Runs the command; returns its exit code and what it printed."""

    def run(*arguments):
        code = cli.main(["migrate", *map(str, arguments)])
        return code, capsys.readouterr().out

    return run
