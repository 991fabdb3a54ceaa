"""What a program does around its steps: every recorded case, version and family.

Policies, the graph rewrite, two replicas, `compile` and batches, warnings, checkpoints.
Each case is equal, or differs as an entry of the tables of differences says. Those name
the rows of compat_docs/reference/differences.md, which `test_differences.py` looks for.
"""

import pytest

from tests import families
from tests.families import OLD_KERAS3, keras2, needs_keras3
from tests.golden import (
    collecting,
    comparing,
    harness,
    replay_distribution,
    replay_extras,
    replay_graph_rewrite,
    replay_keras_training,
    replay_policies,
    replay_warnings,
    replays,
)


def _of_another_family(case, family):
    """Whether the replay is left to the longer run: it is not of today's optimizers."""
    del case
    return family != families.CURRENT


def _again(case, family):
    """The same, or whether cases of the stable class show the same on that family."""
    again = case.get("api") == "experimental" and family == "keras3"
    return again or _of_another_family(case, family)


SECTIONS = {
    section.name: section
    for section in (
        comparing.Section(
            "policies",
            replay_policies.replay,
            applies=replay_policies.applies,
            slow=_of_another_family,
        ),
        comparing.Section(
            "graph_rewrite",
            replay_graph_rewrite.replay,
            families=replay_graph_rewrite.REPLAYED_ON,
        ),
        comparing.Section(
            "distribution",
            replay_distribution.replay,
            equal=replay_distribution.equal,
            slow=_again,
        ),
        comparing.Section(
            "keras_training",
            replay_keras_training.replay,
            equal=replay_keras_training.equal,
            slow=_again,
        ),
        comparing.Section(
            "warnings_logged",
            replay_warnings.replay,
            families=replay_warnings.REPLAYED_ON,
        ),
        comparing.Section(
            "extras",
            replay_extras.replay,
            applies=replay_extras.applies,
        ),
    )
}


@pytest.fixture(autouse=True)
def strategy(mirrored2):
    """The replays' strategy, the one of the process."""
    replay_distribution.use(mirrored2)


@collecting.each(comparing.parameters(SECTIONS), by=comparing.group)
def test_equals_every_version(section, case, results, family):
    section.check(case, results, family)


@needs_keras3
@pytest.mark.skipif(
    OLD_KERAS3,
    reason="differences of later versions of Keras 3",
)
@pytest.mark.slow
@pytest.mark.parametrize("section", SECTIONS)
def test_every_difference_is_needed(section):
    idle = SECTIONS[section].idle()
    assert not idle, f"No recorded case shows these: {idle}"


def _tf_keras_wraps(api, inner, kind, scale, growth):
    assert api == "stable"
    dynamic = (
        {"dynamic": False} if kind == "fixed" else {"dynamic_growth_steps": growth}
    )
    return keras2.mixed_precision.LossScaleOptimizer(
        inner, initial_scale=scale, **dynamic
    )


@pytest.mark.slow
def test_batches_equal_those_of_tf_keras_to_the_last_bit(monkeypatch):
    """Both run here: the record was made on a processor that may round otherwise."""
    section, played = SECTIONS["keras_training"], 0
    for case, results, family in section.replays():
        if family == "keras3" or harness.result_of(results, harness.REFERENCE) is None:
            continue
        actual = section.actual(family, case)
        with monkeypatch.context() as patched:
            patched.setattr(replay_keras_training, "wrapped", _tf_keras_wraps)
            theirs = section.replay(family, case)
        assert replays.equal(actual, theirs), case
        played += 1
    assert played == 16
