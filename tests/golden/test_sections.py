"""The recorded cases on tf_lso: every case, version and family.

Each is equal, or has an entry in `record/differences.json`. Those name the rows of
compat_docs/reference/differences.md, which `test_differences.py` looks for.
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


# Of one optimizer all families are the core.
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
    """tf_keras's own wrapper, replayed alike, gives what was recorded of it."""
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
    """Both run here: the record was made on a processor that may round otherwise."""
    section, played = SECTIONS["training-keras_training"], 0
    for case, results, family in section.replays():
        if family != "keras3" and harness.result_of(results, harness.REFERENCE):
            actual = section.actual(family, case)
            assert encoding.equal(actual, section.on_tf_keras(case)), case
            played += 1
    assert played == 16


@pytest.mark.parametrize("name", TRAJECTORIES)
def test_skipped_steps_count_since_2_3(name):
    # The documented difference from 2.0 to 2.2: there `iterations` counted applied
    # steps only. From 2.3 on, and in tf_lso, it counts all; `replay_trajectories.same`
    # sees that in all replays, those of functions too, which take long.
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
    # In 2.4-2.8 they had the layout of the stable class.
    names = {"case": "get_config", "api": "experimental"}
    for case, results in harness.cases("config_roundtrip", "configs", **names):
        layout = set(replay_configs.replay("experimental", "legacy", case))
        for entry in results:
            is_old = not {"2.4.4", "2.8.4"} & set(entry["versions"])
            assert (layout == set(entry["result"]["ok"])) == is_old


@pytest.mark.parametrize("scale", [4.0, 3.0])
def test_bfloat16_loss_stays_bfloat16(scale):
    # The record shows it as float32, which NumPy has.
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
