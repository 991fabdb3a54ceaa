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
REPLAY_TEST = "tests/golden/test_sections.py#test_equals_every_version"


def rows_of(text):
    """Return (first cell, whether the row links to the replays) for each row of a page."""
    rows = []
    for line in text.splitlines():
        cells = re.split(r"(?<!\\)\|", line)
        if len(cells) == 7:  # five cells, and the empty texts before and after them
            rows.append((cells[1].strip(), f"{REPLAY_TEST})" in line))
    return rows


def missing_and_stale(named_rows, rows):
    """Return two sets that are empty if the page and the entries agree.

    The first set has the reasons of entries that are not the beginning of exactly one row. The
    second set has the rows that link to the replays, but that no entry names.
    """
    missing = set()
    for beginning in named_rows:
        if sum(cell.startswith(beginning) for cell, _ in rows) != 1:
            missing.add(beginning)
    stale = {
        cell
        for cell, is_linked in rows
        if is_linked and not cell.startswith(tuple(named_rows))
    }
    return missing, stale


def test_the_page_has_the_rows_that_entries_name_and_no_stale_rows():
    rows = rows_of(PAGE.read_text(encoding="utf-8"))
    assert len(rows) > 50, "the page should have more rows, so `rows_of` may be wrong"
    assert missing_and_stale(differences.named_rows(), rows) == (set(), set())


@pytest.mark.parametrize(
    ("named_rows", "expected"),
    [
        ({"`a`"}, (set(), set())),
        ({"`a`", "`c`"}, ({"`c`"}, set())),
        (set(), (set(), {"`a` of x"})),
        ({"`a`", "`b`"}, ({"`b`"}, set())),
    ],
)
def test_a_missing_and_a_stale_row_are_found(named_rows, expected):
    page = (
        "| What | Legacy | tf_lso | Why | Versions |\n|---|---|---|---|---|\n"
        f"| `a` of x | 1 | 2 | 3 ([test](../../{REPLAY_TEST})) | 2.0\u20132.15 |\n"
        "| `b` | 1 | 2 | 3 ([test](../../tests/x.py#test_b)) | 2.1 |\n"
        "| `b` again | 1 | 2 | 3 ([test](../../tests/x.py#test_b)) | 2.1 |\n"
    )
    assert missing_and_stale(named_rows, rows_of(page)) == expected
