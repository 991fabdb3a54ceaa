"""Writes the parts of pages in compat_docs that come from tables of the package.

Run `python -m tools.written_pages` to write them. A test fails if one is out of date.
"""

import functools
import pathlib
import re

from tf_lso import names
from tf_lso.patches.table import COMPILING, INSTALL, LIKES, LOADING, PATCHES

DASH = "\N{EN DASH}"
PAGES = pathlib.Path(__file__).resolve().parents[1] / "compat_docs"


def with_part(text, name, content):
    """Return the text of a page in which a part between two marks has new content."""
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


_TODAY = {names.MISSING: "gone", names.CHANGED: "something else", names.SAME: "works"}
_COLUMNS = ("Name", "Versions", "Today", "What `tf_lso` does", "Today's own")


def _old_names():
    parts = [
        f"On TensorFlow 2.12{DASH}2.15 `{name}` is an exception: {symbol.keras_2}\n"
        for name, symbol in names.SYMBOLS.items()
        if symbol.keras_2
    ]
    for namespace, uses in names.NAMESPACES.items():
        if not namespace.startswith("compat.v2"):
            parts.append(f"## tf.{namespace}\n\nIn `tf_lso.{namespace}`:\n")
            rows = [_row(name, use) for name, use in sorted(uses.items())]
            parts.append(_table(_COLUMNS, rows))
    return "\n".join(parts)


def _row(name, use):
    """Return the cells of the row for one name."""
    symbol, today = names.SYMBOLS[use.symbol], _TODAY[use.today]
    if use.today == names.CHANGED and symbol.breaks:
        today += f": {symbol.breaks}"
    versions = use.versions + ("2.21" if use.versions.endswith("-") else "")
    own = f"`{symbol.current}`" if symbol.current else DASH
    return f"`{name}`", versions, today, symbol.does, own


def _private_modules():
    rows = [
        (f"`{path}`", f"`tf_lso.{path}`", ", ".join(f"`{n}`" for n in sorted(uses)))
        for path, uses in names.PRIVATE.items()
    ]
    return _table(("Module", "In `tf_lso`", "Names"), rows)


def _spellings():
    rows = []
    for spelled, namespace in {**names.MODULES, **names.TF_KERAS_MODULES}.items():
        is_kept = spelled.startswith("tf_keras.src.")  # tf_keras uses it itself
        note = " (`install()` does not change it)" if is_kept else ""
        rows.append((f"`{spelled}`", f"`tf_lso.{namespace}`{note}"))
    return _table(("Imported as", "Leads to"), rows)


def _changes(moment):
    rows = [(p.where, p.target, p.why) for p in PATCHES if p.when == moment]
    return _with_dashes(_table(("In", "Name", "It is changed to"), rows))


def _changes_of_like():
    rows = [(f"up to {p.when}", p.target, p.why) for p in PATCHES if p.when in LIKES]
    return _with_dashes(_table(("`like`", "Name", "It is changed to"), rows))


def _with_dashes(text):
    # Versions are joined by a hyphen in the code and by a dash on pages.
    return re.sub(r"(\d\.\d+)-(\d\.\d+)", rf"\1{DASH}\2", text)


# Page -> {part of the page: function that returns its content}.
WRITTEN = {
    "reference/old-names.md": {
        "names": _old_names,
        "private modules": _private_modules,
        "spellings": _spellings,
    },
    "explanation/changes.md": {
        **{
            moment: functools.partial(_changes, moment)
            for moment in (INSTALL, COMPILING, LOADING)
        },
        "like": _changes_of_like,
    },
}


def page(path, text):
    """Return the text of a page in which all parts are up to date."""
    for name, content in WRITTEN[path].items():
        text = with_part(text, name, content())
    return text


if __name__ == "__main__":
    for path in WRITTEN:
        text = page(path, (PAGES / path).read_text(encoding="utf-8"))
        (PAGES / path).write_text(text, encoding="utf-8")
