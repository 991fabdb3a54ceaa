"""Links from pages to files of the repository lead to pages that show these files.

A page writes `[test](../../tests/test_core.py#TestIt.test_this)`: a link that a reader
of the files can follow. The site gets a page with the text of each such file, and the
link leads to the line of the function. So the site is whole without a network.
"""

import ast
import os
import re
from pathlib import Path

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, guess_lexer_for_filename
from pygments.util import ClassNotFound

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "compat_docs"
FOLDER = "_files"  # of the site, with these pages
_LINK = re.compile(r"\[([^][]*)\]\(((?:\.\./)+[^)\s#]+)(?:#([\w.]+))?\)")


def line_of(path, name):
    """Return the line of a function, a class or `Class.method` of a file."""
    scope = ast.parse(path.read_text(encoding="utf-8"))
    for part in name.split("."):
        scope = next(n for n in scope.body if getattr(n, "name", None) == part)
    return scope.lineno


def to_files(folder, text, shown):
    """Return the text of a page in `folder`, its links out of compat_docs replaced.

    Args:
      folder: Path of the page's folder.
      text: str, Markdown.
      shown: set, to which the files are added that need a page.
    """

    def replace(match):
        label, path, name = match.groups()
        target = Path(os.path.normpath(folder / path))
        if DOCS in target.parents or not target.is_file():
            return match[0]
        shown.add(target)
        up = "../" * len(folder.relative_to(DOCS).parts)
        anchor = f"#L-{line_of(target, name)}" if name else ""
        # As HTML, since for Sphinx no page of its own stands there.
        place = f"{up}{FOLDER}/{target.relative_to(ROOT).as_posix()}.html{anchor}"
        return f'<a href="{place}">{label}</a>'

    return _LINK.sub(replace, text)


def write(file, out):
    """Write the page that shows a file, into the site `out`."""
    name = file.relative_to(ROOT).as_posix()
    text = file.read_text(encoding="utf-8")
    try:
        lexer = guess_lexer_for_filename(file.name, text)
    except ClassNotFound:
        lexer = TextLexer()
    formatter = HtmlFormatter(full=True, title=name, linenos="inline", lineanchors="L")
    page = out / FOLDER / f"{name}.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(highlight(text, lexer, formatter), encoding="utf-8")


def setup(app):
    """Connect to Sphinx."""
    shown = set()

    def on_read(app, name, source):
        page = Path(app.env.doc2path(name))
        source[0] = to_files(page.parent, source[0], shown)

    def on_end(app, error):
        for file in shown:
            write(file, Path(app.outdir))

    app.connect("source-read", on_read)
    app.connect("build-finished", on_end)
    # `shown` is of this process.
    return {"parallel_read_safe": False}
