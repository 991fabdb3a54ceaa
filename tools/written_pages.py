"""Writes the parts of pages in compat_docs that come from tables of the package.

`tools/docs` writes the parts. A test fails if a part is out of date.
"""

import collections
import functools
import pathlib
import re

from tf_lso import names
from tf_lso.install.table import INSTALL, PATCHES, WRAPPED

DASH = "\N{EN DASH}"
PAGES = pathlib.Path(__file__).resolve().parents[1] / "compat_docs"


def with_part(text, name, content):
    """Return the text of a page with new content in the part between two marks."""
    begin = re.escape(f"<!-- {name}: written by tools/")
    pattern = rf"({begin}.*?-->\n).*?(<!-- end of {name} -->)"
    page, count = re.subn(
        pattern, lambda found: f"{found[1]}\n{content}\n{found[2]}", text, flags=re.S
    )
    if count != 1:
        raise ValueError(f"The part {name!r} is in the page {count} times.")
    return page


def _table(heading, rows):
    head, *lines = [f"| {' | '.join(cells)} |" for cells in (heading, *rows)]
    return "\n".join([head, f"|{'---|' * len(heading)}", *lines, ""])


_TODAY = {names.MISSING: "gone", names.CHANGED: "different", names.SAME: "works"}


def _symbols():
    """Return the table with a row for each old class and function."""
    rows = []
    for name, symbol in names.SYMBOLS.items():
        own = f"`{symbol.current}`" if symbol.current else DASH
        before = f"In 2.12{DASH}2.15: {symbol.keras_2}" if symbol.keras_2 else ""
        rows.append((f"`{name}`", symbol.does, f"{own} {before}".strip()))
    return _table(("Name", "In `tf_lso`", "Today's successor"), rows)


def _modules():
    """Return a table of the names in each old module."""
    parts = []
    for namespace, uses in names.NAMESPACES.items():
        if not namespace.startswith("compat.v2"):
            parts.append(f"### tf.{namespace}\n\nIn `tf_lso.{namespace}`:\n")
            parts.append(_table(("Versions", "Today", "Names"), _rows(uses)))
    return "\n".join(parts)


def _rows(uses):
    """Return the rows for the names of a module.

    Names with the same versions and the same state today share a row.
    """
    alike = collections.defaultdict(list)
    for name, use in sorted(uses.items()):
        versions = use.versions + ("2.21" if use.versions.endswith("-") else "")
        alike[versions, _TODAY[use.today]].append(f"`{name}`")
    return [(*key, ", ".join(found)) for key, found in sorted(alike.items())]


def _changes(moment):
    rows = [(p.where, p.target, _begin(p.why)) for p in PATCHES if p.when == moment]
    return _with_dashes(_table(("In", "Name", "It is changed to"), rows))


def _changes_of_like():
    rows = [(p.when, p.target, _begin(p.why)) for p in PATCHES if p.is_of_like]
    return _with_dashes(_table(("`like`", "Name", "It is changed to"), rows))


def _begin(text):
    """Return the first sentence of a docstring."""
    return re.split(r"(?<=\.) (?=[A-Z])", text)[0]


def _with_dashes(text):
    # A range of versions has a hyphen in the code and a dash on pages.
    return re.sub(r"(\d\.\d+)-(\d\.\d+)", rf"\1{DASH}\2", text)


# Maps a page to {name of a part: function that returns the content of the part}.
WRITTEN = {
    "reference/old-names.md": {
        "symbols": _symbols,
        "modules": _modules,
    },
    "explanation/changes.md": {
        **{
            moment: functools.partial(_changes, moment) for moment in (INSTALL, WRAPPED)
        },
        "like": _changes_of_like,
    },
}


def page(path, text):
    """Return the text of a page with new content in all its parts."""
    for name, content in WRITTEN[path].items():
        text = with_part(text, name, content())
    return text


if __name__ == "__main__":
    for path in WRITTEN:
        text = page(path, (PAGES / path).read_text(encoding="utf-8"))
        (PAGES / path).write_text(text, encoding="utf-8")
