"""Replay every recorded case with tf_lso, and compare with every version.

Each result must equal the recorded result, or `record/differences.json` must have an entry with
the reason. `comparing.py` says how the results are compared.
"""

import importlib
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from tests.families import CURRENT, needs_keras3
from tests.generation import limit
from tests.golden import (
    comparing,
    encoding,
    harness,
    messages,
    replay_calls,
    replay_configs,
    replay_distribution,
    replay_loss_scales,
    replay_trajectories,
)

SECTIONS = {
    f"{section.file}-{section.name}": section
    for path in sorted(pathlib.Path(__file__).parent.glob("replay_*.py"))
    for section in importlib.import_module(f"tests.golden.{path.stem}").SECTIONS
}
TRAJECTORIES = [f"golden-{section.name}" for section in replay_trajectories.SECTIONS]

needs_same_kernels = pytest.mark.skipif(
    not harness.SAME_KERNELS, reason="other kernels than those recorded"
)


@pytest.fixture(autouse=True)
def strategy(mirrored2):
    replay_distribution.use(mirrored2)


LIMITS = {
    "configs-config_roundtrip-json_serializable-new": [
        limit(
            "newer optimizers that this Keras serializes have NumPy's numbers", "2.12"
        )
    ],
    "training-policies-new": [
        limit(
            "this Keras writes a policy without `module` and `registered_name`", "2.12"
        )
    ],
}
_OTHERS = [section for name, section in SECTIONS.items() if name not in TRAJECTORIES]


@pytest.mark.parametrize("replays", comparing.grouped(_OTHERS, LIMITS))
def test_equals_every_version(replays):
    comparing.check_all(replays)


# The core tests replay the steps of one inner optimizer on all families.
_CORE = ("v2-RMSprop-legacy", "v2-RMSprop-keras3", "new-RMSprop-new")
_STEPS = [
    pytest.param(*group.values, id=group.id, marks=[*group.marks, pytest.mark.core])
    if group.id.endswith(_CORE)
    else group
    for group in comparing.grouped(replay_trajectories.SECTIONS)
]


@pytest.mark.parametrize("replays", _STEPS)
def test_every_step(replays):
    comparing.check_all(replays)


_NAMES_OF_POLICIES = limit(
    "this Keras compares policies by identity and writes only their names", "3.0"
)


@needs_keras3
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=_NAMES_OF_POLICIES if name == "training-policies" else ()
        )
        for name in SECTIONS
    ],
)
def test_every_entry_of_the_differences_holds_for_a_case(name):
    assert not SECTIONS[name].unused()


@needs_same_kernels
@pytest.mark.parametrize(
    ("name", "more_than"),
    [
        *((f"golden-{section.name}", 0) for section in replay_calls.SECTIONS),
        *(pytest.param(name, 40, marks=pytest.mark.slow) for name in TRAJECTORIES),
        ("behaviour-hyperparameters", 50),
        ("behaviour-errors", 50),
    ],
)
def test_the_replays_are_right(name, more_than):
    """With the same replays, the wrapper of tf_keras gives the results in its record."""
    played, wrong = SECTIONS[name].wrong_on_tf_keras()
    assert not wrong
    assert played > more_than


_SLICES = limit(
    "the own `LossScale.update` of this TensorFlow refuses slices without a shape",
    "2.12",
)
_OF_LOSS_SCALES = [
    pytest.param(
        *(case, recorded),
        id=case["case"],
        marks=[_SLICES] if case["case"] == "update:slices_no_shape" else [],
    )
    for case, results in harness.cases("loss_scale_classes")
    if (recorded := harness.result_of(results, harness.REFERENCE)) is not None
]


@pytest.mark.parametrize(("case", "recorded"), _OF_LOSS_SCALES)
def test_the_replays_of_loss_scales_are_right(case, recorded):
    actual = comparing.play(replay_loss_scales.replay, "reference", None, case)
    assert replay_loss_scales.same(actual, recorded, case, None), actual


@pytest.mark.slow
def test_batches_equal_those_of_tf_keras_to_the_last_bit():
    """Replay tf_keras here, since the processor of the record may have rounded differently."""
    section, played = SECTIONS["training-keras_training"], 0
    for case, results, family in section.replays():
        if family != "keras3" and harness.result_of(results, harness.REFERENCE):
            actual = section.actual(family, case)
            assert encoding.equal(actual, section.on_tf_keras(case)), case
            played += 1
    assert played == 16


@pytest.mark.parametrize("name", TRAJECTORIES)
def test_skipped_steps_count_since_2_3(name):
    # TensorFlow 2.0 to 2.2 counted only applied steps in `iterations`. TensorFlow 2.3 and
    # tf_lso also count skipped steps. This test checks tf_lso only in eager mode, since replays
    # in a `tf.function` take long. `replay_trajectories.same` checks both modes.
    coefficients = harness.record()["coefficients"]
    is_finite = [np.isfinite([g, *others]).all() for g, others in coefficients]
    for case, results in harness.cases(SECTIONS[name].name, api="experimental"):
        result = harness.result_of(results, "2.1.4")
        if "ok" in result:
            applied = [case.get("kind") == "fixed" or finite for finite in is_finite]
            counted = [step["iterations"] for step in result["ok"]["steps"]]
            assert counted == np.cumsum(applied).tolist()
            if case.get("mode") != "function":
                steps = SECTIONS[name].actual("legacy", case)["ok"]["steps"]
                assert [step["iterations"] for step in steps] == list(range(1, 26))


def test_configs_of_the_experimental_class_have_the_layout_of_2_3():
    # In TensorFlow 2.4-2.8, these configs had the layout of the stable class.
    names = {"case": "get_config", "api": "experimental"}
    for case, results in harness.cases("config_roundtrip", "configs", **names):
        layout = set(replay_configs.replay("experimental", "legacy", case))
        for entry in results:
            is_old = not {"2.4.4", "2.8.4"} & set(entry["versions"])
            assert (layout == set(entry["result"]["ok"])) == is_old


@pytest.mark.parametrize("scale", [4.0, 3.0])
def test_bfloat16_loss_stays_bfloat16(scale):
    # The record cannot show this, since it has bfloat16 results as float32.
    optimizer = harness.wrapped("stable", CURRENT, kind="fixed", scale=scale)
    loss = optimizer.get_scaled_loss(tf.constant(1.5, tf.bfloat16))
    assert loss.dtype == tf.bfloat16


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
    assert messages.is_as_clear(message, recorded, {}) == is_clear
