"""An empty folder to write programs into."""

import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
