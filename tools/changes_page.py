"""Write the tables of compat_docs/explanation/changes.md from tf_lso/patches/table.py.

python -m tools.changes_page
"""

import pathlib
import re

from tf_lso.patches.table import COMPILING, INSTALL, LIKE, LOADING, PATCHES

PAGE = pathlib.Path(__file__).parents[1] / "compat_docs" / "explanation" / "changes.md"
# The lines around what is written; the rest of the page is kept.
FIRST = "<!-- Written by tools/changes_page.py from tf_lso/patches/table.py. -->\n"
LAST = "<!-- The end of what is written by tools/changes_page.py. -->\n"
# Moment -> its heading, and what stands above its table.
SECTIONS = {
    INSTALL: (
        "By install()",
        "Until tf_keras is imported, a hook in `sys.meta_path` waits for it: its changes "
        "are made then.",
    ),
    COMPILING: (
        "By install(), and by the first policy",
        "A policy of `tf_lso` that is set changes this in its Keras.",
    ),
    LOADING: (
        "By install(), and by the first wrapped optimizer of Keras 2",
        "A wrapped optimizer of Keras 3 changes nothing.",
    ),
    LIKE: ('By install(like="2.4")', "For 2.0-2.10."),
}


def tables():
    """Return the text between the two lines."""
    parts = []
    for moment, (heading, text) in SECTIONS.items():
        parts.append(f"\n## {heading}\n\n{text}\n\n| In | Name | It is changed to |\n")
        parts.append("|---|---|---|\n")
        parts += [
            f"| {patch.where} | {patch.target} | {patch.why} |\n"
            for patch in PATCHES
            if patch.when == moment
        ]
    # Programs have hyphens between versions, pages have dashes.
    return re.sub(r"(\d\.\d+)-(\d\.\d+)", "\\1\N{EN DASH}\\2", "".join([*parts, "\n"]))


def page():
    """Return the text of the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(FIRST)
    return "".join([before, FIRST, tables(), LAST, rest.partition(LAST)[2]])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
