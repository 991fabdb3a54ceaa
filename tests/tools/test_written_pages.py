"""Parts of pages are what tools/written_pages.py makes of the tables of the package."""

import pytest

from tools import written_pages

pytestmark = pytest.mark.core


@pytest.mark.parametrize("path", written_pages.WRITTEN)
def test_a_page_is_up_to_date(path):
    text = (written_pages.PAGES / path).read_text(encoding="utf-8")
    assert text == written_pages.page(path, text)  # else: python -m tools.written_pages


def test_the_check_sees_a_page_that_is_not_and_writes_nothing(monkeypatch, tmp_path):
    part = "<!-- a: written by tools/x from y -->\n{}<!-- end of a -->\nbelow\n"
    (tmp_path / "a.md").write_text(part.format("old\n"))
    monkeypatch.setattr(written_pages, "PAGES", tmp_path)
    monkeypatch.setattr(written_pages, "WRITTEN", {"a.md": {"a": lambda: "new\n"}})
    assert written_pages.main(["--check"]) == 1
    assert "old" in (tmp_path / "a.md").read_text()
    assert written_pages.main([]) == 0
    assert (tmp_path / "a.md").read_text() == part.format("\nnew\n\n")
    assert written_pages.main(["--check"]) == 0


def test_a_page_without_its_part_is_refused():
    with pytest.raises(ValueError, match="'a' is in the page 0 times"):
        written_pages.with_part("text", "a", "content")
