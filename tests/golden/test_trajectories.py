"""The recorded trajectories of 25 steps on tf_lso, against every version.

Scale, counter, iterations, and so which steps are skipped, are equal everywhere.
Variables and slots are equal to the last bit on tf_keras's optimizers, which are those
of TensorFlow 2.15 with the same kernels, and on Keras 3's where the update is the same.
"""

import functools

import numpy as np
import pytest

from tests import families
from tests.golden import collecting, harness
from tests.golden.encoding import TOLERANCE, equal, recorded, without

SECTIONS = ("trajectories", "schedules_and_clipping")

# (family in the record, case, family here, versions) -> why the variables differ,
# which are not compared then. An inner optimizer is no matter of loss scaling.
INNER_DIFFERS = {
    ("new", "rmsprop", None, ("2.9.3", "2.10.1")): "epsilon stood outside the root",
    ("new", "rmsprop_centered", None, ("2.9.3", "2.10.1")): "an error, fixed in 2.11",
    ("new", "decay", None, ("2.9.3", "2.10.1")): "`decay` was accepted and ignored",
}

# The same for slots alone.
SLOTS_DIFFER = {
    ("new", "sgd_plain", None, ("2.9.3", "2.10.1")): "SGD made none without momentum",
    ("new", "sgd_plain", "keras3", ()): "Keras 3's SGD makes none without momentum",
    ("new", "use_ema", "keras3", ()): "Keras 3's average starts at the first step",
}

# Keras 3 has the formulas of 2.11. Those of OptimizerV2 differ in rounding: Adam took
# 1 - beta_2 in float32, which is off by 1.3e-5, and updates by half of it; RMSprop had
# epsilon outside the root. As a share of the sum of all learning rates, and of a slot.
OLD_FORMULA = {"Adam": (1e-5, 2e-5), "RMSprop": (1e-5, 1e-6)}
LEARNING_RATES = {"schedule": 4.75}  # the sum of the 25; 0.25 for a rate of 0.01

# A slot of a family `new` -> of OptimizerV2, whose names tf_lso has for all families;
# others have the same name.
SLOTS = {
    "SGD": {"m": "momentum"},
    "RMSprop": {"velocity": "rms", "average_gradient": "mg"},
}


@functools.cache
def _played(family, *names):
    """The states of tf_lso; cached, since versions and APIs share them."""
    return harness.replay_trajectory("stable", dict(names), family)


def _states(case, family):
    names = {k: v for k, v in case.items() if k not in ("api", "family")}
    return _played(family, *names.items())


PARAMETERS = [
    pytest.param(case, results, family, id=f"{harness.name_of(case)}-{family}")
    for section in SECTIONS
    for case, results in harness.cases(section)
    for family in families.here(harness.TF_KERAS_FAMILY[case["family"]], "keras3")
    # Refused by tf_keras's own optimizer.
    if (family, case.get("case")) != ("new", "decay")
]


def _group(case, results, family):
    """The cases of one optimizer of the record, eager or not, on one family here."""
    mode = case.get("mode", "eager")
    return f"{case['family']}-{case['inner']}-{mode}-{family}"


def _found(table, case, family, version):
    return any(
        case["family"] == of
        and case.get("case") == name
        and here in (None, family)
        and (not versions or version in versions)
        for of, name, here, versions in table
    )


def _steps(results):
    """The (version, recorded steps) pairs; versions that refused the case left out."""
    for entry in results:
        if "ok" in entry["result"]:
            steps = recorded(entry["result"]["ok"]["steps"])
            for version in entry["versions"]:
                yield version, steps


# Of one optimizer all families are the core. Functions take longer than eager steps.
SLOW = {
    _group(*p.values): [pytest.mark.slow] for p in PARAMETERS if "-function" in p.id
}
MARKED = {
    **SLOW,
    "v2-RMSprop-eager-legacy": [pytest.mark.core],
    "v2-RMSprop-eager-keras3": [pytest.mark.core],
    "new-RMSprop-eager-new": [pytest.mark.core],
}


@collecting.each(PARAMETERS, by=_group, marked=MARKED)
def test_scale_and_counts(case, results, family):
    states, _ = _states(case, family)
    for version, steps in _steps(results):
        assert len(states) == len(steps) == 25
        for index, (state, step) in enumerate(zip(states, steps)):
            if version == harness.COUNTS_SKIPPED_STEPS_NOT:
                step = {**step, "iterations": index + 1}
            for key in ("loss_scale", "counter", "iterations"):
                assert state[key] == step[key], f"{version}, step {index + 1}: {key}"


@collecting.each(PARAMETERS, by=_group, marked=MARKED)
def test_variables_and_slots(case, results, family):
    states, _ = _states(case, family)
    of_variables, of_slots = _tolerances(case, family)
    for version, steps in _steps(results):
        if _found(INNER_DIFFERS, case, family, version):
            continue
        if version == harness.COUNTS_SKIPPED_STEPS_NOT and _reads_iterations(case):
            # Its count differs from the first skipped step on.
            steps = steps[: _first_skipped(steps)]
            assert steps
        for index, (state, step) in enumerate(zip(states, steps)):
            what = f"{version}, step {index + 1}"
            _assert_close(state["vars"], step["vars"], of_variables, what)
            if not _found(SLOTS_DIFFER, case, family, version):
                slots = _slots(step["slots"], case, family)
                assert state["slots"].keys() == slots.keys(), what
                for name, values in slots.items():
                    found = state["slots"][name]
                    _assert_close(found, values, of_slots, f"{what}, {name}")


def _reads_iterations(case):
    return case["inner"] == "Adam" or case.get("case") in ("schedule", "decay")


def _first_skipped(steps):
    """The number of steps before the first that was not counted."""
    counted = [step["iterations"] == index + 1 for index, step in enumerate(steps)]
    return counted.index(False) if False in counted else len(steps)


def _slots(recorded, case, family):
    """Recorded slots under the names that `harness.slots` gives them here."""
    if family != "keras3":
        return recorded
    if case["family"] == "v2":
        return {
            f"{name}/v{index}": value
            for name, values in recorded.items()
            for index, value in enumerate(values)
        }
    renamed = {}
    for name, value in recorded.items():
        slot, variable = name.split("/")
        slot = SLOTS.get(case["inner"], {}).get(slot, slot)
        renamed[f"{slot}/{variable}"] = value
    return renamed


def _tolerances(case, family):
    """The tolerances of variables and of slots, as keywords of assert_allclose."""
    exact = {"rtol": 0, "atol": 0}
    if family == "keras3" and case["family"] == "v2" and case["inner"] in OLD_FORMULA:
        share, of_slot = OLD_FORMULA[case["inner"]]
        rates = LEARNING_RATES.get(case.get("case"), 0.25)
        return {"rtol": 1e-6, "atol": share * rates}, {"rtol": of_slot, "atol": 1e-7}
    if not harness.SAME_KERNELS or family == "keras3":
        return TOLERANCE, TOLERANCE
    if case.get("scale") == 3.0:
        # Legacy multiplied by the float32 reciprocal of 3, tf_lso divides: a gradient
        # may differ in its last bit, and its square in two.
        return exact, {"rtol": 3 * 2.0**-23, "atol": 2.0**-27}
    return exact, exact


def _assert_close(actual, recorded, tolerance, what):
    if actual != recorded:
        np.testing.assert_allclose(
            _flat(actual), _flat(recorded), err_msg=what, **tolerance
        )


def _flat(value):
    """A float64 vector of nested lists of numbers."""
    if isinstance(value, list):
        return np.concatenate([_flat(v) for v in value] or [np.zeros(0)])
    return np.array([value], np.float64)


@collecting.each(PARAMETERS, by=_group, marked=SLOW)
def test_returns(case, results, family):
    # Eager steps return None, as recorded. In a function OptimizerV2's wrapper returned
    # an op, which a function cannot return; a tensor serves wherever the op did.
    _, returned = _states(case, family)
    if case.get("mode", "eager") == "eager":
        assert returned == [None] * 25
        for _, steps in _steps(results):
            assert all(step["ret"] is None for step in steps)
    else:
        symbolic = {"dtype": "bool", "shape": [], "symbolic": True}
        assert returned == [symbolic] * len(returned)


OF_2_1 = [
    pytest.param(case, steps, id=harness.name_of(case))
    for section in SECTIONS
    for case, results in harness.cases(section, api="experimental")
    for version, steps in _steps(results)
    if version == harness.COUNTS_SKIPPED_STEPS_NOT
]


@pytest.mark.parametrize(("case", "steps"), OF_2_1)
def test_skipped_steps_count_since_2_3(case, steps):
    # The documented difference from 2.0 to 2.2: there `iterations` counted applied
    # steps only. From 2.3 on, and in tf_lso, it counts all.
    coefficients = recorded(harness.record()["coefficients"])
    applied = [
        case.get("kind") == "fixed" or np.isfinite(_flat(c)).all() for c in coefficients
    ]
    assert [step["iterations"] for step in steps] == np.cumsum(applied).tolist()
    states, _ = _states(case, "legacy")
    assert [state["iterations"] for state in states] == list(range(1, 26))


@pytest.mark.skipif(
    not harness.SAME_KERNELS, reason="other kernels than those recorded"
)
@collecting.each(
    [
        pytest.param(case, result, id=f"{section}-{harness.name_of(case)}")
        for section in SECTIONS
        for case, results in harness.cases(section, api="stable")
        if (result := harness.result_of(results, harness.REFERENCE)) is not None
    ],
    by=lambda case, result: case["family"],
)
def test_the_replays_are_right(case, result):
    """tf_keras's own wrapper, replayed alike, gives what was recorded of it."""
    if "error" in result:  # of the inner optimizer
        with pytest.raises(ValueError, match="decay is deprecated"):
            harness.replay_trajectory("reference", case)
        return
    states, _ = harness.replay_trajectory("reference", case)
    steps = [without(step, "ret") for step in result["ok"]["steps"]]
    assert equal(states, recorded(steps))
