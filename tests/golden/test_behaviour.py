"""Attributes and errors on tf_lso: every recorded case, version and family.

Each is equal, or differs as an entry of the tables of differences says. Those name the
rows of compat_docs/reference/differences.md, which `test_differences.py` looks for.
"""

import functools
import json
import re

import pytest

from tests.families import here, needs_keras3
from tests.golden import (
    collecting,
    differences_errors,
    differences_hyperparameters,
    harness,
    messages,
    replay_errors,
    replay_hyperparameters,
    replays,
)

# Section -> how it is replayed, what is wrapped with for each api, the differences.
SECTIONS = {
    "hyperparameters": (
        replay_hyperparameters.replay,
        replay_hyperparameters.OURS,
        differences_hyperparameters.DIFFERENCES,
    ),
    "errors": (
        replay_errors.replay,
        replay_errors.OURS,
        differences_errors.DIFFERENCES,
    ),
}

# Family in the record -> the families here.
FAMILIES = {"v2": here("legacy", "keras3"), "new": here("new", "keras3")}

# Keras 3's Adam rounds otherwise than OptimizerV2's; see `test_trajectories.py`.
_OTHER_FORMULA = {"rtol": 1e-6, "atol": 1e-5}


def _replays():
    for section in SECTIONS:
        for case, results in harness.cases(section, "behaviour"):
            for family in FAMILIES[case["family"]]:
                yield section, case, results, family


def _parameters():
    return [
        pytest.param(
            *replay, id=f"{replay[0]}-{harness.name_of(replay[1])}-{replay[3]}"
        )
        for replay in _replays()
    ]


@functools.cache
def _cached(section, family, case):
    replay, makers, _ = SECTIONS[section]
    case = json.loads(case)
    return replay(makers[case["api"]], family, case)


def _actual(section, family, case):
    return _cached(section, family, json.dumps(case))


def _listed(section, case, family, version):
    table = SECTIONS[section][2]
    return [d for d in table if d.holds(section, case, family, version)]


def _expected(recorded, case, listed):
    for difference in listed:
        recorded = difference.expected(recorded, case)
    return recorded


def _is_equal(actual, expected, case, family):
    if case["case"] == "dir":  # of which tf_lso has more
        return set(expected["ok"]) <= set(actual["ok"])
    if case["case"] == "isinstance":  # None: that version had no such class
        known = {k: v for k, v in expected["ok"].items() if v is not None}
        return known.items() <= actual["ok"].items()
    if family == "legacy":
        return replays.equal(actual, expected, harness.SAME_KERNELS)
    return replays.equal(actual, expected, False, _OTHER_FORMULA)


def _assert_clear(actual, recorded, case, section):
    """The message of tf_lso's error says as much as the recorded one."""
    if section == "hyperparameters":
        if case["case"] in ("get", "set"):
            assert case["attribute"] in actual["message"]
    elif "message" in recorded:
        assert messages.is_as_clear(actual["message"], recorded["message"])


@collecting.each(
    _parameters(), by=lambda section, case, results, family: f"{section}-{family}"
)
def test_equals_every_version(section, case, results, family):
    actual = _actual(section, family, case)
    for entry in results:
        recorded = replays.recorded(entry["result"])
        for version in entry["versions"]:
            listed = _listed(section, case, family, version)
            expected = _expected(recorded, case, listed)
            what = f"{version}: {expected}, now {actual}"
            assert _is_equal(actual, expected, case, family), what
            if "error" not in actual:
                continue
            patterns = [d.message for d in listed if d.message]
            if patterns:
                assert re.search(patterns[-1], actual["message"])
            else:
                _assert_clear(actual, recorded, case, section)


def _needed():
    """The ids of the differences without which a replay would fail."""
    for section, case, results, family in _replays():
        actual = _actual(section, family, case)
        for entry in results:
            recorded = replays.recorded(entry["result"])
            for version in entry["versions"]:
                listed = _listed(section, case, family, version)
                for difference in listed:
                    others = [d for d in listed if d is not difference]
                    try:
                        expected = _expected(recorded, case, others)
                        same = _is_equal(actual, expected, case, family)
                    except (KeyError, TypeError, ValueError):
                        same = False  # the others change what this one gives
                    if not same:
                        yield id(difference)


@needs_keras3
def test_every_difference_is_needed():
    needed = set(_needed())
    for _, _, table in SECTIONS.values():
        idle = [d for d in table if id(d) not in needed]
        assert not idle, f"No recorded case shows these: {idle}"


@pytest.mark.skipif(
    not harness.SAME_KERNELS, reason="other kernels than those recorded"
)
@pytest.mark.parametrize("section", SECTIONS)
def test_the_replays_are_right(section):
    # tf_keras's own wrapper, replayed alike, gives what was recorded of it.
    wraps = {"hyperparameters": harness.reference, "errors": replay_errors.REFERENCE}
    played = 0
    for case, results in harness.cases(section, "behaviour", api="stable"):
        recorded = harness.result_of(results, harness.REFERENCE)
        if recorded is None:
            continue
        family = harness.TF_KERAS_FAMILY[case["family"]]
        actual = SECTIONS[section][0](wraps[section], family, case)
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
