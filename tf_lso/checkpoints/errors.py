"""The error that every command on files raises."""

import contextlib
import zipfile
import zlib
from collections.abc import Iterator

# What reading damaged files may raise.
_UNREADABLE = (
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)


class CheckpointError(ValueError):
    """A file cannot be read, or what is in it does not fit.

    The message names the file, and the key in it if there is one.
    """


@contextlib.contextmanager
def refusing(what: str, *more: type[Exception]) -> Iterator[None]:
    """Turn errors of reading, and `more`, into a CheckpointError: `what` and why."""
    kinds: tuple[type[Exception], ...] = (*_UNREADABLE, *more)
    try:
        yield
    except CheckpointError:
        raise
    except kinds as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise CheckpointError(f"{what} ({lines[0].rstrip('.')}).") from error
