"""The harness itself: tf_keras's wrapper reproduces what was recorded of it.

Where this fails, the harness or the machine is to blame, and failures of other tests
in this folder tell nothing of tf_lso.
"""

import pytest

from tests.golden import collecting, harness, replays

pytestmark = pytest.mark.skipif(
    not harness.SAME_KERNELS, reason="other kernels than those recorded"
)


def _parameters(sections):
    for section in sections:
        for case, results in harness.cases(section, api="stable"):
            result = harness.result_of(results, harness.REFERENCE)
            if result is not None:
                name = f"{section}-{harness.name_of(case)}"
                yield pytest.param(section, case, result, id=name)


def _group(section, case, recorded):
    return f"{section}-{case['family']}"


@collecting.each(list(_parameters(["trajectories", "schedules_and_clipping"])), _group)
def test_trajectories(section, case, recorded):
    del section
    if "error" in recorded:  # of the inner optimizer
        with pytest.raises(ValueError, match="decay is deprecated"):
            harness.optimizer_of(harness.reference, case)
        return
    states, _ = harness.replay_trajectory(harness.reference, case)
    steps = [replays.without(step, "ret") for step in recorded["ok"]["steps"]]
    assert replays.equal(states, replays.recorded(steps))


@collecting.each(list(_parameters(replays.REPLAYS)), _group)
def test_replays(section, case, recorded):
    family = harness.TF_KERAS_FAMILY[case["family"]]
    actual = replays.REPLAYS[section](harness.reference, family, case)
    assert replays.equal(actual, replays.recorded(recorded)), actual
