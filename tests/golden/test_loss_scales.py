"""The recorded cases on the real loss scales: one that they fail tells of the replay."""

import pytest

from tests.golden import comparing, harness, replay_loss_scales

CASES = harness.cases("loss_scale_classes")


@pytest.mark.parametrize(
    ("case", "results"), CASES, ids=[case["case"] for case, _ in CASES]
)
def test_real_classes(case, results):
    recorded = harness.result_of(results, harness.REFERENCE)
    if recorded is None:
        pytest.skip("a name of other versions")
    actual = comparing.play(replay_loss_scales.replay, "reference", None, case)
    assert replay_loss_scales.same(actual, recorded, case, None), actual
