"""`debugging.explain` names the kind and the layer of each planted problem."""

import pytest

from tests.debugging import planted
from tests.families import GENERATIONS, KERASES
from tests.generation import limit

LIMITS = {
    "keras2-inner_layer_of_multi_head_attention": limit(
        "the layers in a `MultiHeadAttention` of this Keras do not have its policy",
        *("2.12", "2.13"),
    ),
}
CASES = [
    pytest.param(generation, name, marks=LIMITS.get(f"{generation}-{name}", ()))
    for generation in GENERATIONS
    for name in planted.CASES
]


@pytest.mark.parametrize(("generation", "name"), CASES)
def test_explain_names_the_planted_problem(generation, name):
    # Earlier tests may have used the names of the layers. Keras would number them then.
    KERASES[generation].backend.clear_session()
    case = planted.CASES[name](KERASES[generation])
    report = planted.explained(case)
    first, fitting = report.first, report.fitting_scale
    assert (first.kind, first.layer) == (case.kind, case.layer), report
    if case.layer:
        assert f"'{case.layer}'" in first.message
    if case.kind == "backward nan":
        assert fitting is None
    if case.kind == "underflow" or (case.kind == planted.BACKWARD and fitting):
        # The fitting scale works, and a scale that is 4 times larger overflows.
        below = planted.explained(case, loss_scale=fitting).first.kind
        above = planted.explained(case, loss_scale=4 * fitting).first.kind
        assert (below, above) == (None, planted.BACKWARD)
