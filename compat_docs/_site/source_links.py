"""Links from pages to files of the repository lead to the repository's site.

A page writes `[test](../../tests/test_core.py#TestIt.test_this)`: a link that a reader
of the files can follow. On the site it leads to the file in the repository, and to the
line of the function.
"""

import ast
import os
import re
from pathlib import Path

import addresses

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\]\(((?:\.\./)+)([^)\s#]+)(?:#([\w.]+))?\)")


def line_of(path, name):
    """Return the line of a function, a class or `Class.method` of a file."""
    scope = ast.parse(path.read_text(encoding="utf-8"))
    for part in name.split("."):
        scope = next(n for n in scope.body if getattr(n, "name", None) == part)
    return scope.lineno


def to_repository(folder, text):
    """Return the text of a page in `folder` with its links out of compat_docs."""

    def replace(match):
        target = Path(os.path.normpath(folder / match[1] / match[2]))
        if (ROOT / "compat_docs") in target.parents or not target.exists():
            return match[0]
        kind = "tree" if target.is_dir() else "blob"
        place = target.relative_to(ROOT).as_posix()
        anchor = f"#L{line_of(target, match[3])}" if match[3] else ""
        return f"]({addresses.REPOSITORY}/{kind}/{addresses.BRANCH}/{place}{anchor})"

    return _LINK.sub(replace, text)


def _on_read(app, name, source):
    source[0] = to_repository((Path(app.srcdir) / name).parent, source[0])


def setup(app):
    """Connect to Sphinx."""
    app.connect("source-read", _on_read)
    return {"parallel_read_safe": True}
