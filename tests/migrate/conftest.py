"""The tests of the command run in an empty folder."""

from tests.source.conftest import folder as folder
