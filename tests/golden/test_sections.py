"""The recorded cases on tf_lso: every case, version and family.

Each is equal, or differs as an entry of `record/differences.json` says. Those name the
rows of compat_docs/reference/differences.md, which `test_differences.py` looks for.
"""

import pytest
import tensorflow as tf

from tests.families import CURRENT, OLD_KERAS3, here, needs_keras3
from tests.golden import (
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
    replay_warnings,
)
from tests.golden.comparing import Section, check_all, grouped, parameters

# Family in the record -> the families here whose optimizers compute the same. Those of
# Keras 3 are the `new` ones of 2.11; what needs no inner arithmetic is played once.
_ALL = {"v2": here("legacy", "keras3"), "new": here("new")}
_OF_CALLS = {
    "scaled_loss": _ALL,
    "unscaled_gradients": _ALL,
    "sparse_and_half": {"v2": here("legacy"), "new": here("new", "keras3")},
    "minimize_variants": _ALL,
    "floor_and_overflow": _ALL,
    # OptimizerV2 alone has transformers and aggregators.
    "extras": {"v2": here("legacy"), "new": ()},
}


def _without_slots_of_keras3(actual, expected, case, family):
    if family == "keras3":  # whose slots have other names
        actual, expected = (encoding.without(v, "slots") for v in (actual, expected))
    return encoding.equal(actual, expected, harness.AS_RECORDED)


# Keras 3's Adam rounds otherwise than OptimizerV2's; see `test_trajectories.py`.
_OTHER_FORMULA = {"rtol": 1e-6, "atol": 1e-5}


def _behaves_equally(actual, expected, case, family):
    if case["case"] == "dir":  # of which tf_lso has more
        return set(expected["ok"]) <= set(actual["ok"])
    if case["case"] == "isinstance":  # None: that version had no such class
        known = {k: v for k, v in expected["ok"].items() if v is not None}
        return known.items() <= actual["ok"].items()
    tolerance = harness.AS_RECORDED if family == "legacy" else _OTHER_FORMULA
    return encoding.equal(actual, expected, tolerance)


def _current(case, family):
    """Left to the longer run are families that are not today's."""
    return [pytest.mark.slow] if family != CURRENT else []


def _once(case, family):
    """And there cases that those of the stable class show, too."""
    again = case.get("api") == "experimental" and family == "keras3"
    return [pytest.mark.slow] if again else _current(case, family)


def _sections():
    # Values and single steps: one class replays those of both.
    for name, on_families in _OF_CALLS.items():
        replay = replay_calls.REPLAYS[name]
        options = {"families": on_families, "api": "stable", "each": True}
        yield Section("golden", name, replay, _without_slots_of_keras3, **options)
    of_errors = {"equal": _behaves_equally}
    for file, name, module, options in (
        ("golden", "loss_scale_classes", replay_loss_scales, {}),
        ("behaviour", "loss_scale_classes", replay_loss_scales, {}),
        ("behaviour", "hyperparameters", replay_attributes, of_errors),
        ("behaviour", "errors", replay_errors, of_errors),
        ("configs", "config_roundtrip", replay_configs, {}),
        # What a program does around its steps.
        ("training", "policies", replay_policies, {"marks": _current}),
        ("training", "graph_rewrite", replay_graph_rewrite, {}),
        ("training", "distribution", replay_distribution, {"marks": _once}),
        ("training", "keras_training", replay_keras_training, {"marks": _once}),
        ("training", "warnings_logged", replay_warnings, {}),
        ("training", "extras", replay_checkpoints, {}),
    ):
        options = options | getattr(module, "OPTIONS", {})
        yield Section(file, name, module.replay, **options)


SECTIONS = {f"{section.file}-{section.name}": section for section in _sections()}


@pytest.fixture(autouse=True)
def strategy(mirrored2):
    """The replays' strategy, the one of the process."""
    replay_distribution.use(mirrored2)


def _group(section, case, results, family):
    of_optimizer = section.file == "configs" and "api" in case
    more = [case["case"]] if of_optimizer else []
    return "-".join([section.file, section.name, *more, family])


@pytest.mark.parametrize("replays", grouped(parameters(SECTIONS.values()), _group))
def test_equals_every_version(replays):
    check_all(Section.check, replays)


@needs_keras3
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if "training-" in name else ())
        for name in SECTIONS
    ],
)
def test_every_difference_is_needed(name):
    if OLD_KERAS3 and name.startswith("training-"):
        pytest.skip("differences of later versions of Keras 3")
    idle = SECTIONS[name].idle()
    assert not idle, f"No recorded case shows these: {idle}"


@pytest.mark.skipif(
    not harness.SAME_KERNELS, reason="other kernels than those recorded"
)
@pytest.mark.parametrize(
    "name",
    [
        *(f"golden-{n}" for n in _OF_CALLS),
        "behaviour-hyperparameters",
        "behaviour-errors",
    ],
)
def test_the_replays_are_right(name):
    """tf_keras's own wrapper, replayed alike, gives what was recorded of it."""
    played, wrong = SECTIONS[name].wrong_on_tf_keras()
    assert not wrong
    assert played > (50 if name.startswith("behaviour") else 0)


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
