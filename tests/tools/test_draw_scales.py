"""The picture of the loss scale shows the behavior of the update rule."""

import pytest

from tools.draw_scales import RUNS, draw, scales


def test_each_panel_shows_what_its_title_says():
    high, single, lost = (scales(*run) for _, *run in RUNS)
    assert high[1][:5] == [0, 1, 2, 3, 4] and high[0][5] == 2**10
    # The scale follows the largest scale that does not overflow.
    assert high[0][-1] == 2**12
    assert single[1] == [60, 170, 280] and single[0][-1] == 2**6
    assert lost[0][-1] == 1 and lost[1] == list(range(150, 400))


def test_it_draws(tmp_path):
    pytest.importorskip("matplotlib")
    draw(tmp_path / "scales.svg")
    text = (tmp_path / "scales.svg").read_text(encoding="utf-8")
    assert all(title in text for title, *_ in RUNS)
