"""Write migrated programs to their files, and make diffs of the changes."""

import contextlib
import difflib
import os
import re
import shutil
from collections.abc import Iterable

from tf_lso.migrate.engine import Options
from tf_lso.migrate.findings import Examined, Unreadable
from tf_lso.migrate.reading_files import STDIN, Outcome, check, reason


def migrate(
    paths: Iterable[str], options: Options | None = None, write: bool = False
) -> Outcome:
    """Examine files as `check` does. If `write` is True, write the migrated files back."""
    outcome = check(paths, options)
    outcome.written = write
    for file in outcome.changed if write else ():
        try:
            if file.path != STDIN:
                _replace(os.path.realpath(file.path), file.old, file.new)
        except OSError as error:
            why = f"cannot be written: {reason(error)}"
            file.new = file.old
            outcome.unreadable.append(Unreadable(why, file.path))
    return outcome


def _replace(path: str, old: bytes, new: bytes) -> None:
    """Replace a file in one atomic step. Raise OSError if it no longer contains `old`."""
    temporary = os.path.join(os.path.dirname(path), f".tf-lso-{os.getpid()}")
    try:
        with open(temporary, "xb") as file:
            os.chmod(temporary, 0o600)
            file.write(new)
        shutil.copymode(path, temporary)
        with open(path, "rb") as file:
            if file.read() != old:
                raise OSError("it was changed in the meantime")
        os.replace(temporary, path)
    finally:
        # After `os.replace` there is no temporary file.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def diff(file: Examined) -> str:
    """Return the unified diff of a file in the form that `git apply` reads."""
    name = file.path.replace(os.sep, "/").removeprefix("./").lstrip("/")
    texts = (data.decode("utf-8", "replace") for data in (file.old, file.new))
    old, new = (re.findall(r"[^\n]*\n|[^\n]+", text) for text in texts)
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in difflib.unified_diff(old, new, f"a/{name}", f"b/{name}")
    )
