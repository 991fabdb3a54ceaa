"""Replay trajectories of 25 steps, some of which are skipped.

The loss scale, the counter and the iterations must be equal on every family, so the same steps
are skipped. On optimizers of tf_keras, which are those of TensorFlow 2.15, variables and slots
must be equal to the last bit if the kernels are those of the record. On optimizers of Keras 3,
variables and slots may differ by a small tolerance.
"""

import numpy as np
import pytest
import tensorflow as tf

from tests import families
from tests.golden import harness
from tests.golden.comparing import BOOL_IN_GRAPH, Section, check_all, grouped, where
from tests.golden.encoding import ANYTHING, EXACT, TOLERANCE, encode, equal


def _apply_step(optimizer, loss_fn, variables):
    """Take a step with `apply_gradients`, without scaling the loss or the gradients."""
    with tf.GradientTape() as tape:
        loss = loss_fn()
    return optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))


_STYLES = {
    "tape": families.legacy_step,
    "apply": _apply_step,
    "minimize": lambda optimizer, loss_fn, variables: optimizer.minimize(
        loss_fn, variables
    ),
}


def replay(api, family, case):
    optimizer = harness.wrapped(
        api,
        family,
        case["inner"],
        case.get("case"),
        # The cases of schedules_and_clipping do not have these names.
        kind=case.get("kind", "dynamic"),
        scale=case.get("scale", 4.0),
        growth=case.get("growth", 3),
    )
    variables = [tf.Variable(1.0, name="v0"), tf.Variable([1.0, 2.0, 3.0], name="v1")]
    returned = []

    def step(scalar, vector):
        def loss_fn():
            first, second = variables
            return scalar * first + tf.reduce_sum(vector * second)

        # Encode now, since a symbolic tensor of TensorFlow 2.12 loses its shape with its graph.
        returned.append(encode(_STYLES[case["style"]](optimizer, loss_fn, variables)))

    if case.get("mode") == "function":
        step = tf.function(step)
    steps = []
    for scalar, vector in harness.record()["coefficients"]:
        step(tf.constant(scalar), tf.constant(vector))
        steps.append(harness.state(optimizer, variables))
    if case.get("mode") == "function":
        return {"steps": steps, "trace_returns": returned}
    return {"steps": [{**s, "ret": ret} for s, ret in zip(steps, returned)]}


# --- The comparison.

# Keras 3 has the formulas of TensorFlow 2.11. OptimizerV2 rounds differently: its Adam computed
# 1 - beta_2 in float32 with a relative error of 1.3e-5, and each update had half of that error.
# Its RMSprop added epsilon outside the root. This table maps an optimizer to two relative
# tolerances. The first is for variables, relative to the sum of all learning rates. The second
# is for slots, relative to their values.
_OLD_FORMULA = {"Adam": (1e-5, 2e-5), "RMSprop": (1e-5, 1e-6)}
# The sum of the learning rates of the 25 steps. It is 0.25 for all cases with the rate 0.01.
_SUM_OF_LEARNING_RATES = {"schedule": 4.75}

# Maps the name of a slot in the family `new` to its name in OptimizerV2, which is the name that
# `get_slot` accepts on all families. Other slots have the same name in both families.
_SLOTS = {
    "SGD": {"m": "momentum"},
    "RMSprop": {"velocity": "rms", "average_gradient": "mg"},
}


def same(actual, expected, case, family):
    """Return whether all steps, and what `apply_gradients` returned, are as expected."""
    if "error" in actual or "error" in expected:
        return equal(actual, expected)
    actual, expected = actual["ok"], expected["ok"]
    returned = expected.get("trace_returns", [])
    if not all(each in returned for each in actual.get("trace_returns", [])):
        return False
    variable_tolerance, slot_tolerance = _tolerances(case, family)
    steps = zip(actual["steps"], expected["steps"], strict=True)
    # Some versions do not count skipped steps in `iterations`. After the first skipped step,
    # values that depend on `iterations` differ, so they are not compared.
    is_behind = False
    for number, (step, recorded) in enumerate(steps, start=1):
        is_behind |= recorded["iterations"] != number
        wanted = {**recorded, "iterations": number}
        tolerances = dict.fromkeys(recorded.keys() - {"vars", "slots"}, EXACT)
        if not (is_behind and _reads_iterations(case)):
            wanted["slots"] = _slots(recorded["slots"], case, family)
            tolerances["vars"] = variable_tolerance
            tolerances["slots"] = slot_tolerance
        for name, tolerance in tolerances.items():
            if not equal(step[name], wanted[name], tolerance):
                return False
    return True


def _reads_iterations(case):
    return case["inner"] == "Adam" or case.get("case") in ("schedule", "decay")


def _slots(recorded, case, family):
    """Return recorded slots with the names that `harness.slots` gives for the family."""
    if family != "keras3" or recorded == ANYTHING:
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
        slot = _SLOTS.get(case["inner"], {}).get(slot, slot)
        renamed[f"{slot}/{variable}"] = value
    return renamed


def _tolerances(case, family):
    """Return the tolerance for variables and the tolerance for slots."""
    if family == "keras3" and case["family"] == "v2" and case["inner"] in _OLD_FORMULA:
        of_rates, of_slots = _OLD_FORMULA[case["inner"]]
        rates = _SUM_OF_LEARNING_RATES.get(case.get("case"), 0.25)
        variable_tolerance = {"rtol": 1e-6, "atol": of_rates * rates}
        return variable_tolerance, {"rtol": of_slots, "atol": 1e-7}
    if family == "keras3":
        return TOLERANCE, TOLERANCE
    if harness.SAME_KERNELS and case.get("scale") == 3.0:
        # The old wrapper multiplied gradients by the float32 reciprocal of 3. tf_lso divides by
        # 3. So a gradient may differ in the last bit, and its square in the last two bits.
        return EXACT, {"rtol": 3 * 2.0**-23, "atol": 2.0**-27}
    return harness.KERNEL_TOLERANCE, harness.KERNEL_TOLERANCE


# --- The sections.


def _marks(case, family):
    # A `tf.function` takes longer than eager steps.
    return [pytest.mark.slow] if case.get("mode") == "function" else []


def _applies(case, family):
    # The newer optimizers of tf_keras refuse the argument `decay`.
    return (family, case.get("case")) != ("new", "decay")


def _group(case):
    return case["family"], case["inner"]


def _section(name, differs):
    return Section(
        "golden",
        name,
        replay,
        same,
        differs,
        api="stable",  # it also replays the cases of the experimental class
        applies=_applies,
        marks=_marks,
        group=_group,
    )


SECTIONS = [
    _section(
        "trajectories",
        {
            "What `apply_gradients` returns in a `tf.function`": [
                where(
                    growth=2,
                    mode="function",
                    changes={"trace_returns": [BOOL_IN_GRAPH]},
                ),
                where(
                    growth=[3, None],
                    mode="function",
                    style=["apply", "minimize", "tape"],
                    changes={"trace_returns": [BOOL_IN_GRAPH]},
                ),
            ],
        },
    ),
    _section(
        "schedules_and_clipping",
        {
            "`decay` was accepted and ignored": [
                where(
                    case="decay",
                    family="new",
                    like="2.10.1",
                    changes={
                        "steps > * > vars": ANYTHING,
                        "steps > * > slots": ANYTHING,
                    },
                ),
            ],
            "Keras 3's SGD makes no slots without momentum": [
                where(case="sgd_plain", family="new", on="keras3", like="2.10.1"),
            ],
            "Keras 3's average starts at the first step": [
                where(
                    case="use_ema", on="keras3", changes={"steps > * > slots": ANYTHING}
                ),
            ],
        },
    ),
]

# Maps the id of a group of steps to marks. The core tests replay the eager steps of one inner
# optimizer on all families. Only RMSprop has quick steps with schedules and clipping.
MARKS = {
    "golden-trajectories-v2-RMSprop-legacy": [pytest.mark.core],
    "golden-trajectories-v2-RMSprop-keras3": [pytest.mark.core],
    "golden-trajectories-new-RMSprop-new": [pytest.mark.core],
    "golden-schedules_and_clipping-v2-RMSprop-legacy": [pytest.mark.core],
    "golden-schedules_and_clipping-v2-RMSprop-keras3": [pytest.mark.core],
    "golden-schedules_and_clipping-new-RMSprop-new": [pytest.mark.core],
    "golden-schedules_and_clipping-v2-SGD-legacy": [pytest.mark.slow],
    "golden-schedules_and_clipping-v2-SGD-keras3": [pytest.mark.slow],
    "golden-schedules_and_clipping-v2-Adam-legacy": [pytest.mark.slow],
    "golden-schedules_and_clipping-v2-Adam-keras3": [pytest.mark.slow],
    "golden-schedules_and_clipping-new-SGD-keras3": [pytest.mark.slow],
    "golden-schedules_and_clipping-new-SGD-new": [pytest.mark.slow],
    "golden-schedules_and_clipping-new-Adam-keras3": [pytest.mark.slow],
    "golden-schedules_and_clipping-new-Adam-new": [pytest.mark.slow],
}


@pytest.mark.parametrize("replays", grouped(SECTIONS, MARKS))
def test_equals_every_version(replays):
    check_all(replays)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
def test_skipped_steps_count_since_2_3(section):
    # TensorFlow 2.0 to 2.2 counted only applied steps in `iterations`. TensorFlow 2.3 and
    # tf_lso also count skipped steps. This test checks tf_lso only in eager mode, since replays
    # in a `tf.function` take long. `same` checks both modes.
    coefficients = harness.record()["coefficients"]
    is_finite = [
        bool(np.isfinite([scalar, *vector]).all()) for scalar, vector in coefficients
    ]
    for case, results in harness.cases(section.name, api="experimental"):
        recorded = harness.result_of(results, "2.1.4")
        if "error" in recorded:
            continue
        # A fixed scale skips no steps.
        is_fixed = case.get("kind") == "fixed"
        is_applied = [is_fixed or finite for finite in is_finite]
        assert _iterations(recorded) == np.cumsum(is_applied).tolist()
        if case.get("mode") != "function":
            assert _iterations(section.actual("legacy", case)) == list(range(1, 26))


def _iterations(result):
    return [step["iterations"] for step in result["ok"]["steps"]]
