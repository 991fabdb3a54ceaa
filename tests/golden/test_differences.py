"""Compare the rows of compat_docs/reference/differences.md with `record/differences.json`.

An entry in `differences.json` may give a row of the page as its reason. The page must have that
row. The other way round, if a row of the page links to the test of the replays, an entry must
name the row. `test_sections.py` fails for an entry that applies to no case, so together these
tests also find a row whose difference is gone.
"""

import re
from pathlib import Path

import pytest

from tests.golden import differences

PAGE = Path(__file__).parents[2] / "compat_docs" / "reference" / "differences.md"

# A row of the page links to this test if the replays show the difference.
SHOWN_HERE = "tests/golden/test_sections.py#test_equals_every_version"


def rows_of(text):
    """Return (first cell, whether the row links to the replays) for each row of a page."""
    lines = [(re.split(r"(?<!\\)\|", line), line) for line in text.splitlines()]
    rows = [(cells[1].strip(), line) for cells, line in lines if len(cells) == 7]
    return [(first, f"{SHOWN_HERE})" in line) for first, line in rows]


def wrong(used_rows, rows):
    """Return two sets that are empty if the page and the entries agree.

    The first set has the reasons of entries that are not the beginning of exactly one row. The
    second set has the rows that link to the replays, but that no entry names.
    """
    cells = [cell for cell, _ in rows]
    missing = {b for b in used_rows if sum(cell.startswith(b) for cell in cells) != 1}
    shown_here = {cell for cell, is_shown_here in rows if is_shown_here}
    return missing, {c for c in shown_here if not c.startswith(tuple(used_rows))}


def test_the_page_has_the_differences_of_the_replays_and_no_others():
    rows = rows_of(PAGE.read_text(encoding="utf-8"))
    assert len(rows) > 50
    assert wrong(differences.rows(), rows) == (set(), set())


@pytest.mark.parametrize(
    ("begins", "expected"),
    [
        ({"`a`"}, (set(), set())),
        ({"`a`", "`c`"}, ({"`c`"}, set())),
        (set(), (set(), {"`a` of x"})),
        ({"`a`", "`b`"}, ({"`b`"}, set())),
    ],
)
def test_a_missing_and_a_stale_row_are_found(begins, expected):
    page = (
        "| What | Legacy | tf_lso | Why | Versions |\n|---|---|---|---|---|\n"
        f"| `a` of x | 1 | 2 | 3 ([test](../../{SHOWN_HERE})) | 2.0\u20132.15 |\n"
        "| `b` | 1 | 2 | 3 ([test](../../tests/x.py#test_b)) | 2.1 |\n"
        "| `b` again | 1 | 2 | 3 ([test](../../tests/x.py#test_b)) | 2.1 |\n"
    )
    assert wrong(begins, rows_of(page)) == expected
