"""Attributes and errors on tf_lso: every recorded case, version and family.

Each is equal, or differs as an entry of the tables of differences says. Those name the
rows of compat_docs/reference/differences.md, which `test_differences.py` looks for.
"""

import functools

import pytest

from tests.families import needs_keras3
from tests.golden import (
    collecting,
    comparing,
    harness,
    messages,
    replay_errors,
    replay_hyperparameters,
    replays,
)

# Keras 3's Adam rounds otherwise than OptimizerV2's; see `test_trajectories.py`.
_OTHER_FORMULA = {"rtol": 1e-6, "atol": 1e-5}


def _is_equal(actual, expected, case, family):
    if case["case"] == "dir":  # of which tf_lso has more
        return set(expected["ok"]) <= set(actual["ok"])
    if case["case"] == "isinstance":  # None: that version had no such class
        known = {k: v for k, v in expected["ok"].items() if v is not None}
        return known.items() <= actual["ok"].items()
    if family == "legacy":
        return replays.equal(actual, expected, harness.SAME_KERNELS)
    return replays.equal(actual, expected, False, _OTHER_FORMULA)


def _names_the_attribute(message, recorded, case):
    return case["case"] not in ("get", "set") or case["attribute"] in message


def _with_ours(module):
    """The replay of a module, around the class that is of the case's api."""
    return lambda family, case: module.replay(module.OURS[case["api"]], family, case)


_section = functools.partial(comparing.Section, equal=_is_equal, file="behaviour")

SECTIONS = {
    "hyperparameters": _section(
        "hyperparameters",
        _with_ours(replay_hyperparameters),
        is_clear=_names_the_attribute,
    ),
    "errors": _section("errors", _with_ours(replay_errors)),
}


@collecting.each(comparing.parameters(SECTIONS), by=comparing.group)
def test_equals_every_version(section, case, results, family):
    section.check(case, results, family)


@needs_keras3
@pytest.mark.parametrize("section", SECTIONS)
def test_every_difference_is_needed(section):
    idle = SECTIONS[section].idle()
    assert not idle, f"No recorded case shows these: {idle}"


@pytest.mark.skipif(
    not harness.SAME_KERNELS, reason="other kernels than those recorded"
)
@pytest.mark.parametrize(
    ("section", "replay", "wraps"),
    [
        ("hyperparameters", replay_hyperparameters.replay, harness.reference),
        ("errors", replay_errors.replay, replay_errors.REFERENCE),
    ],
)
def test_the_replays_are_right(section, replay, wraps):
    # tf_keras's own wrapper, replayed alike, gives what was recorded of it.
    played = 0
    for case, results in harness.cases(section, "behaviour", api="stable"):
        recorded = harness.result_of(results, harness.REFERENCE)
        if recorded is None:
            continue
        family = harness.TF_KERAS_FAMILY[case["family"]]
        actual = replay(wraps, family, case)
        assert replays.equal(actual, replays.recorded(recorded)), f"{case}: {actual}"
        played += 1
    assert played > 50


@pytest.mark.parametrize(
    ("message", "recorded", "is_clear"),
    [
        ("'dynamic' is 3", '"dynamic" must be a bool, but got: 3', True),
        ("'dynamic' is 4", '"dynamic" must be a bool, but got: 3', False),
        ("'optimizer' is missing", "missing argument: 'inner_optimizer'", True),
        ("it is missing", "missing argument: 'inner_optimizer'", False),
        ("'abc' is no number", "could not convert string to float: 'abc'", True),
        ("no number", "could not convert string to float: 'abc'", False),
        ("but got: None", "float() argument must be a number, not 'NoneType'", True),
        ("anything", "takes from 1 to 4 positional arguments", True),
    ],
)
def test_unclear_messages_are_found(message, recorded, is_clear):
    assert messages.is_as_clear(message, recorded) == is_clear
