"""The command, run in an empty folder."""

import pytest

from tests.source.conftest import folder as folder
from tests.source.programs import run


@pytest.fixture
def migrate(folder):
    """Runs the command; returns its exit code and what it printed."""
    return lambda *arguments: run("migrate", *arguments)
