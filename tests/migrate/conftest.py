"""A fixture for tests that write programs."""

import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder, which is the current directory during the test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
