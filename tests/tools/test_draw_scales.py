"""The picture of the scale shows what the rule does."""

import importlib.machinery
import importlib.util
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "draw_scales"


@pytest.fixture(scope="module")
def tool():
    loader = importlib.machinery.SourceFileLoader("draw_scales", str(TOOL))
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader("draw_scales", loader)
    )
    loader.exec_module(module)
    return module


def test_each_panel_shows_what_its_title_says(tool):
    high, single, hysteresis, lost = map(tool.scales, tool.RUNS)
    assert high[1][:5] == [0, 1, 2, 3, 4] and high[0][5] == 2**10
    assert high[0][-1] == 2**12  # it follows what the gradients allow
    assert single[1] == hysteresis[1] == [60, 170, 280]
    assert single[0][-1] == 2**6 and set(hysteresis[0]) == {2**9}
    assert lost[0][-1] == 1 and lost[1] == list(range(150, 400))


def test_it_draws(tool, tmp_path):
    pytest.importorskip("matplotlib")
    tool.draw(tmp_path / "scales.svg")
    text = (tmp_path / "scales.svg").read_text(encoding="utf-8")
    assert all(run.title in text for run in tool.RUNS)
