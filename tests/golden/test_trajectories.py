"""The recorded trajectories of 25 steps on tf_lso, against every version."""

import numpy as np
import pytest

from tests.families import needs_keras3
from tests.golden import harness, replay_trajectories
from tests.golden.comparing import Section, check_all, grouped, parameters

# Of one optimizer all families are the core.
CORE = [
    ("v2", "RMSprop", "legacy"),
    ("v2", "RMSprop", "keras3"),
    ("new", "RMSprop", "new"),
]


def _marks(case, family):
    if case.get("mode") == "function":
        return [pytest.mark.slow]  # it takes longer than eager steps
    is_core = (case["family"], case["inner"], family) in CORE
    return [pytest.mark.core] if is_core else []


def _has(case, family):
    # Refused by tf_keras's own optimizer.
    return (family, case.get("case")) != ("new", "decay")


OPTIONS = {"has": _has, "marks": _marks, "equal": replay_trajectories.same}
SECTIONS = [
    Section("golden", name, replay_trajectories.replay, api="stable", **OPTIONS)
    for name in ("trajectories", "schedules_and_clipping")
]


def _group(section, case, results, family):
    """The cases of one optimizer of the record, eager or not, on one family here."""
    return "-".join([case["family"], case["inner"], case.get("mode", "eager"), family])


@pytest.mark.parametrize("replays", grouped(parameters(SECTIONS), _group))
def test_every_step(replays):
    check_all(Section.check, replays)


each_section = pytest.mark.parametrize("section", SECTIONS, ids=lambda s: s.name)


@pytest.mark.slow
@needs_keras3
@each_section
def test_every_difference_is_needed(section):
    assert not section.idle()


@pytest.mark.slow  # a replay that is wrong is wrong on tf_lso too
@pytest.mark.skipif(
    not harness.SAME_KERNELS, reason="other kernels than those recorded"
)
@each_section
def test_the_replays_are_right(section):
    """tf_keras's own wrapper, replayed alike, gives what was recorded of it."""
    played, wrong = section.wrong_on_tf_keras()
    assert not wrong
    assert played > 40


@each_section
def test_skipped_steps_count_since_2_3(section):
    # The documented difference from 2.0 to 2.2: there `iterations` counted applied
    # steps only. From 2.3 on, and in tf_lso, it counts all.
    coefficients = harness.record()["coefficients"]
    is_finite = [np.isfinite([g, *others]).all() for g, others in coefficients]
    for case, results in harness.cases(section.name, api="experimental"):
        result = harness.result_of(results, harness.COUNTS_SKIPPED_STEPS_NOT)
        if "ok" in result:
            applied = [case.get("kind") == "fixed" or finite for finite in is_finite]
            counted = [step["iterations"] for step in result["ok"]["steps"]]
            assert counted == np.cumsum(applied).tolist()
            steps = section.actual("legacy", case)["ok"]["steps"]
            assert [step["iterations"] for step in steps] == list(range(1, 26))
