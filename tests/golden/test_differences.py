"""The page of differences has those that the replays use, and no others.

An entry that no case needs fails in `test_sections.py`; so a row of the page whose
difference is gone fails here.
"""

import re
from pathlib import Path

import pytest

from tests.golden import differences

PAGE = Path(__file__).parents[2] / "compat_docs" / "reference" / "differences.md"

# Rows that name this test are shown by it alone.
SHOWN_HERE = "tests/golden/test_sections.py#test_equals_every_version"


def rows_of(text):
    """The first cell of each row of the page's tables, and whether a test here shows it."""
    lines = [(re.split(r"(?<!\\)\|", line), line) for line in text.splitlines()]
    rows = [(cells[1].strip(), line) for cells, line in lines if len(cells) == 7]
    return [(first, f"{SHOWN_HERE})" in line) for first, line in rows]


def wrong(used_rows, rows):
    """What is wrong: (differences without a row of their own, rows that are stale)."""
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
