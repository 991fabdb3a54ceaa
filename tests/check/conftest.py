"""The fixture `folder`, for tests that write programs."""

from tests.migrate.conftest import folder  # noqa: F401
