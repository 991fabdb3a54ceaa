"""Replay every recorded case with tf_lso, and compare with every version.

Each result must equal the recorded result, or `record/differences.json` must have an entry with
the reason. `comparing.py` says how the results are compared.
"""

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
    replay_attributes,
    replay_calls,
    replay_checkpoints,
    replay_configs,
    replay_distribution,
    replay_errors,
    replay_graph_rewrite,
    replay_keras_training,
    replay_loss_scales,
    replay_policies,
    replay_trajectories,
    replay_warnings,
)

SECTIONS = [
    *replay_attributes.SECTIONS,
    *replay_calls.SECTIONS,
    *replay_checkpoints.SECTIONS,
    *replay_configs.SECTIONS,
    *replay_distribution.SECTIONS,
    *replay_errors.SECTIONS,
    *replay_graph_rewrite.SECTIONS,
    *replay_keras_training.SECTIONS,
    *replay_loss_scales.SECTIONS,
    *replay_policies.SECTIONS,
    *replay_warnings.SECTIONS,
]

needs_same_kernels = pytest.mark.skipif(
    not harness.SAME_KERNELS, reason="other kernels than those recorded"
)


@pytest.fixture(autouse=True)
def strategy(mirrored2):
    replay_distribution.set_strategy(mirrored2)


def test_every_section_of_the_record_is_replayed():
    replayed = {(s.file, s.name) for s in [*SECTIONS, *replay_trajectories.SECTIONS]}
    recorded = {
        (file, name)
        for file in [path.name.split(".")[0] for path in harness.RECORDS.glob("*.gz")]
        for name in harness.record(file)["sections"]
    }
    assert replayed == recorded


# Maps the id of a group of replays to marks.
MARKS = {
    "training-policies-keras3": [pytest.mark.slow],  # about 15 seconds
    "training-distribution-keras3": [pytest.mark.slow],
    "configs-config_roundtrip-json_serializable-new": [
        limit(
            "this Keras writes NumPy numbers into configs of newer optimizers", "2.12"
        )
    ],
    "training-policies-new": [
        limit(
            "this Keras writes a policy without `module` and `registered_name`", "2.12"
        )
    ],
}


@pytest.mark.parametrize("replays", comparing.grouped(SECTIONS, MARKS))
def test_equals_every_version(replays):
    comparing.check_all(replays)


# Maps the id of a group of steps to marks. The core tests replay the eager steps of one inner
# optimizer on all families. Only RMSprop has quick steps with schedules and clipping.
MARKS_OF_STEPS = {
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


@pytest.mark.parametrize(
    "replays", comparing.grouped(replay_trajectories.SECTIONS, MARKS_OF_STEPS)
)
def test_every_step(replays):
    comparing.check_all(replays)


def _named(section, *values, marks=()):
    """Return a `pytest.param` with a section, whose id is "file-section", and more values."""
    name = f"{section.file}-{section.name}"
    return pytest.param(section, *values, id=name, marks=marks)


_KERAS_3_0_POLICIES = limit(
    "this Keras compares policies by identity and writes only their names", "3.0"
)


@needs_keras3
@pytest.mark.parametrize(
    "section",
    [
        *(_named(s) for s in SECTIONS if s not in replay_policies.SECTIONS),
        *(_named(s, marks=_KERAS_3_0_POLICIES) for s in replay_policies.SECTIONS),
        *(_named(s) for s in replay_trajectories.SECTIONS),
    ],
)
def test_every_entry_of_the_differences_applies_to_a_case(section):
    assert not section.unused()


@needs_same_kernels
@pytest.mark.parametrize(
    ("section", "more_than"),
    [
        *(_named(s, 0) for s in replay_calls.SECTIONS),
        *(_named(s, 40, marks=pytest.mark.slow) for s in replay_trajectories.SECTIONS),
        *(_named(s, 50) for s in replay_attributes.SECTIONS),
        *(_named(s, 50) for s in replay_errors.SECTIONS),
    ],
)
def test_the_replays_are_right(section, more_than):
    """With the same replays, the wrapper of tf_keras gives the results in its record.

    `more_than` makes sure that the section still finds its recorded cases.
    """
    played, wrong = section.wrong_on_tf_keras()
    assert not wrong
    assert played > more_than


def _recorded_loss_scales():
    """Return a `pytest.param` with each case of loss scales and the result of tf_keras."""
    params = []
    for case, results in harness.cases("loss_scale_classes"):
        recorded = harness.result_of(results, harness.REFERENCE)
        marks = []
        if case["case"] == "update:slices_no_shape":
            reason = (
                "`LossScale.update` of this TensorFlow refuses slices without a shape"
            )
            marks = [limit(reason, "2.12")]
        if recorded is not None:
            params.append(pytest.param(case, recorded, id=case["case"], marks=marks))
    return params


@pytest.mark.parametrize(("case", "recorded"), _recorded_loss_scales())
def test_the_replays_of_loss_scales_are_right(case, recorded):
    """With the same replays, the classes of TensorFlow give the recorded results."""
    actual = comparing.play(replay_loss_scales.replay, "reference", None, case)
    assert replay_loss_scales.same(actual, recorded, case, None), actual


@pytest.mark.slow
def test_batches_equal_those_of_tf_keras_to_the_last_bit():
    """Replay tf_keras here, since the processor of the record may have rounded differently."""
    (section,), played = replay_keras_training.SECTIONS, 0
    for case, results, family in section.replays():
        if family != "keras3" and harness.result_of(results, harness.REFERENCE):
            actual = section.actual(family, case)
            assert encoding.equal(actual, section.on_tf_keras(case)), case
            played += 1
    assert played == 16, "each of the 16 recorded cases of tf_keras should run"


@pytest.mark.parametrize("section", [_named(s) for s in replay_trajectories.SECTIONS])
def test_skipped_steps_count_since_2_3(section):
    # TensorFlow 2.0 to 2.2 counted only applied steps in `iterations`. TensorFlow 2.3 and
    # tf_lso also count skipped steps. This test checks tf_lso only in eager mode, since replays
    # in a `tf.function` take long. `replay_trajectories.same` checks both modes.
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


def test_configs_of_the_experimental_class_have_the_layout_of_2_3():
    # In TensorFlow 2.4-2.8, these configs had the layout of the stable class.
    names = {"case": "get_config", "api": "experimental"}
    for case, results in harness.cases("config_roundtrip", "configs", **names):
        layout = set(replay_configs.replay("experimental", "legacy", case))
        for entry in results:
            is_old = not {"2.4.4", "2.8.4"} & set(entry["versions"])
            assert (layout == set(entry["result"]["ok"])) == is_old


def test_bfloat16_loss_stays_bfloat16():
    # The record cannot show this, since it has bfloat16 results as float32.
    optimizer = harness.wrapped("stable", CURRENT, kind="fixed", scale=4.0)
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
