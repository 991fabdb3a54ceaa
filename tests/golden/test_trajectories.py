"""Replay trajectories of 25 steps, some of which are skipped.

The loss scale, the counter and the iterations must be equal on every family, so the same steps
are skipped. On optimizers of tf_keras, which are those of TensorFlow 2.15, variables and slots
must be equal to the last bit if the kernels are those of the record. On optimizers of Keras 3,
variables and slots may differ by a small tolerance.
"""

import pytest
import tensorflow as tf

from tests import families
from tests.golden import harness
from tests.golden.comparing import STEPS_FAMILIES, Section, check_all, grouped, where
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

# Maps the name of a slot in the family `new` to its name in OptimizerV2, which is the name that
# `get_slot` accepts on all families. Other slots have the same name in both families.
_SLOTS = {
    "SGD": {"m": "momentum"},
    "RMSprop": {"velocity": "rms", "average_gradient": "mg"},
}


def same(actual, expected, case, family):
    """Return whether all steps, and what `apply_gradients` returned, are as expected."""
    actual, expected = actual["ok"], expected["ok"]
    returned = expected.get("trace_returns", [])
    if not all(each in returned for each in actual.get("trace_returns", [])):
        return False
    tolerances = _tolerances(case, family)
    for step, recorded in zip(actual["steps"], expected["steps"], strict=True):
        wanted = {**recorded, "slots": _slots(recorded["slots"], case, family)}
        for name, value in wanted.items():
            if not equal(step[name], value, tolerances.get(name, EXACT)):
                return False
    return True


def _slots(recorded, case, family):
    """Return recorded slots with the names that `harness.slots` gives for the family."""
    if family != "keras3" or recorded == ANYTHING:
        return recorded
    renamed = {}
    for name, value in recorded.items():
        slot, variable = name.split("/")
        slot = _SLOTS.get(case["inner"], {}).get(slot, slot)
        renamed[f"{slot}/{variable}"] = value
    return renamed


def _tolerances(case, family):
    """Return the tolerances for variables and slots. All other values must be equal."""
    if family == "keras3":
        return {"vars": TOLERANCE, "slots": TOLERANCE}
    if harness.SAME_KERNELS and case.get("scale") == 3.0:
        # The old wrapper multiplied gradients by the float32 reciprocal of 3. tf_lso divides by
        # 3. So a gradient may differ in the last bit, and its square in the last two bits.
        return {"slots": {"rtol": 3 * 2.0**-23, "atol": 2.0**-27}}
    return {"vars": harness.KERNEL_TOLERANCE, "slots": harness.KERNEL_TOLERANCE}


# --- The sections.

_BOOL_IN_GRAPH = {"dtype": "bool", "shape": [], "symbolic": True}


def _marks(case, family):
    if case["inner"] == "RMSprop":
        return [pytest.mark.core]
    # Eager steps of SGD are the quickest.
    is_quick = case["inner"] == "SGD" and case.get("mode") == "eager"
    return [] if is_quick else [pytest.mark.slow]


def _applies(case, family):
    # The newer optimizers refuse the argument `decay`.
    return family == "legacy" or case.get("case") != "decay"


def _section(name, differs):
    return Section(
        "golden",
        name,
        replay,
        same,
        differs,
        families=STEPS_FAMILIES,
        api="stable",  # it also replays the cases of the experimental class
        applies=_applies,
        marks=_marks,
        group=lambda case: (case["family"], case["inner"]),
    )


SECTIONS = [
    _section(
        "trajectories",
        [
            # What `apply_gradients` returns in a `tf.function`.
            where(mode="function", changes={"trace_returns": [_BOOL_IN_GRAPH]}),
        ],
    ),
    _section(
        "schedules_and_clipping",
        [
            # Keras 3's SGD makes no slots without momentum.
            where(case="sgd_plain", on="keras3", like="2.10.1"),
            # Keras 3's average starts at the first step.
            where(case="use_ema", on="keras3", changes={"steps > * > slots": ANYTHING}),
        ],
    ),
]


@pytest.mark.parametrize("replays", grouped(*SECTIONS))
def test_equals_every_version(replays):
    check_all(replays)
