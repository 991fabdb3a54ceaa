"""The page of differences has those that the replays use, and no others.

An entry of the tables that changes nothing fails `test_every_difference_is_needed`; so
a row of the page whose difference is gone fails here.
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
    rows = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 5:
            rows.append((cells[0], f"{SHOWN_HERE})" in line))
    return rows


def wrong(used_rows, rows):
    """What is wrong: (differences without a row of their own, rows that are stale)."""
    missing = {
        begin
        for begin in used_rows
        if sum(cell.startswith(begin) for cell, _ in rows) != 1
    }
    stale = {
        cell
        for cell, is_shown_here in rows
        if is_shown_here and not any(cell.startswith(begin) for begin in used_rows)
    }
    return missing, stale


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
