"""A trouble that is planted in a layer is found there, of its kind."""

import json

import pytest

from tests.debugging import planted
from tests.families import GENERATIONS, KERASES


@pytest.fixture(params=GENERATIONS)
def module(request):
    return KERASES[request.param]


@pytest.mark.parametrize("name", planted.CASES)
def test_the_planted_trouble_is_named(module, name):
    case = planted.CASES[name](module)
    report = planted.explained(case)
    assert (report.first.kind, report.first.layer) == (case.kind, case.layer), report
    json.dumps(report.as_dict(), allow_nan=False)
    if case.layer:
        assert f"'{case.layer}'" in report.first.message


@pytest.mark.parametrize(
    "name", [name for name in planted.CASES if "backward" in name or "gradient" in name]
)
def test_a_scale_that_fits_is_the_largest(module, name):
    case = planted.CASES[name](module)
    report = planted.explained(case)
    if report.first.kind == "backward nan":
        assert report.fitting_scale is None
        return
    fitting = report.fitting_scale
    below = planted.explained(case, loss_scale=fitting).first.kind
    above = planted.explained(case, loss_scale=2 * fitting).first.kind
    assert (below, above) == (None, "backward overflow")
