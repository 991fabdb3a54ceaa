"""The generated parts of pages agree with the tables of the package."""

import pytest

from tools import written_pages

pytestmark = pytest.mark.core


@pytest.mark.parametrize("path", written_pages.WRITTEN)
def test_a_page_is_up_to_date(path):
    text = (written_pages.PAGES / path).read_text(encoding="utf-8")
    assert text == written_pages.page(path, text)  # else: python -m tools.written_pages


def test_a_part_is_replaced_between_its_lines():
    page = "above\n<!-- a: written by tools/x from y -->\n{}<!-- end of a -->\nbelow\n"
    written = written_pages.with_part(page.format("old\n"), "a", "new\n")
    assert written == page.format("\nnew\n\n")
    with pytest.raises(ValueError, match="'b' is in the page 0 times"):
        written_pages.with_part(page, "b", "content")
