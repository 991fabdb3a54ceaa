"""The recorded cases on tf_lso: every case, version and family.

Each is equal, or differs as an entry of `record/differences.json` says. Those name the
rows of compat_docs/reference/differences.md, which `test_differences.py` looks for.
"""

import functools

import pytest
import tensorflow as tf

from tests import families
from tests.families import OLD_KERAS3, here, needs_keras3
from tests.golden import (
    collecting,
    comparing,
    differences,
    encoding,
    harness,
    messages,
    replay_attributes,
    replay_calls,
    replay_checkpoints,
    replay_distribution,
    replay_errors,
    replay_graph_rewrite,
    replay_keras_training,
    replay_policies,
    replay_warnings,
)

# --- The file `golden`: values and single steps. One class replays those of both.

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
    return encoding.equal(actual, expected, harness.SAME_KERNELS)


def _with_attributes(result):
    result = encoding.recorded(result)
    # The optimizers of 2.1 to 2.3 did not have these attributes.
    for name in ("growth", "initial_scale"):
        result["ok"].setdefault(name, differences.ANYTHING)
    return result


# --- The file `behaviour`: attributes and errors.

# Keras 3's Adam rounds otherwise than OptimizerV2's; see `test_trajectories.py`.
_OTHER_FORMULA = {"rtol": 1e-6, "atol": 1e-5}


def _behaves_equally(actual, expected, case, family):
    if case["case"] == "dir":  # of which tf_lso has more
        return set(expected["ok"]) <= set(actual["ok"])
    if case["case"] == "isinstance":  # None: that version had no such class
        known = {k: v for k, v in expected["ok"].items() if v is not None}
        return known.items() <= actual["ok"].items()
    if family == "legacy":
        return encoding.equal(actual, expected, harness.SAME_KERNELS)
    return encoding.equal(actual, expected, False, _OTHER_FORMULA)


def _names_the_attribute(message, recorded, case):
    return case["case"] not in ("get", "set") or case["attribute"] in message


# --- The file `training`: what a program does around its steps.


def _is_of_another(case, family):
    """Whether the replay is left to the longer run: it is not of today's optimizers."""
    return family != families.CURRENT


def _again(case, family):
    """The same, or whether cases of the stable class show the same on that family."""
    again = case.get("api") == "experimental" and family == "keras3"
    return again or _is_of_another(case, family)


def _sections():
    for name, on_families in _OF_CALLS.items():
        has_attributes = name == "floor_and_overflow"
        yield comparing.Section(
            "golden",
            name,
            replay_calls.REPLAYS[name],
            _without_slots_of_keras3,
            on_families,
            api="stable",
            recorded=_with_attributes if has_attributes else encoding.recorded,
            each=True,
            on_tf_keras=True,
        )
    of_behaviour = functools.partial(
        comparing.Section, "behaviour", equal=_behaves_equally, on_tf_keras=True
    )
    clear = _names_the_attribute
    yield of_behaviour("hyperparameters", replay_attributes.replay, is_clear=clear)
    yield of_behaviour("errors", replay_errors.replay)
    yield _of_training(
        "policies",
        replay_policies,
        applies=replay_policies.applies,
        slow=_is_of_another,
    )
    on_families = replay_graph_rewrite.REPLAYED_ON
    yield _of_training("graph_rewrite", replay_graph_rewrite, families=on_families)
    for name, module in (
        ("distribution", replay_distribution),
        ("keras_training", replay_keras_training),
    ):
        yield _of_training(name, module, equal=module.equal, slow=_again)
    on_families = replay_warnings.REPLAYED_ON
    yield _of_training("warnings_logged", replay_warnings, families=on_families)
    applies = replay_checkpoints.applies
    yield _of_training("extras", replay_checkpoints, applies=applies)


def _of_training(name, module, **options):
    return comparing.Section("training", name, module.replay, **options)


SECTIONS = {f"{section.file}-{section.name}": section for section in _sections()}


@pytest.fixture(autouse=True)
def strategy(mirrored2):
    """The replays' strategy, the one of the process."""
    replay_distribution.use(mirrored2)


def _group(section, case, results, family):
    return f"{section.file}-{section.name}-{family}"


def _parameters(of_calls):
    sections = [s for s in SECTIONS.values() if (s.file == "golden") == of_calls]
    return comparing.parameters(sections)


# Two tests, since differences of calls need no row of their own in differences.md.
@collecting.each(_parameters(of_calls=True), by=_group)
def test_calls_equal_every_version(section, case, results, family):
    section.check(case, results, family)


@collecting.each(_parameters(of_calls=False), by=_group)
def test_equals_every_version(section, case, results, family):
    section.check(case, results, family)


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
    "name", [name for name, section in SECTIONS.items() if section.on_tf_keras]
)
def test_the_replays_are_right(name):
    """tf_keras's own wrapper, replayed alike, gives what was recorded of it."""
    section, played, wrong = SECTIONS[name], 0, []
    for case, results in harness.cases(section.name, section.file, api="stable"):
        recorded = harness.result_of(results, harness.REFERENCE)
        if recorded is not None:
            family = harness.TF_KERAS_FAMILY[case["family"]]
            actual = section.on_reference(family, case)
            played += 1
            if not encoding.equal(actual, encoding.recorded(recorded)):
                wrong.append(f"{case}: {actual}")
    assert not wrong
    assert played > (50 if section.file == "behaviour" else 0)


@pytest.mark.slow
def test_batches_equal_those_of_tf_keras_to_the_last_bit():
    """Both run here: the record was made on a processor that may round otherwise."""
    section, played = SECTIONS["training-keras_training"], 0
    for case, results, family in section.replays():
        if family != "keras3" and harness.result_of(results, harness.REFERENCE):
            actual = section.actual(family, case)
            theirs = section.on_reference(family, case)
            assert encoding.equal(actual, theirs), case
            played += 1
    assert played == 16


@pytest.mark.parametrize("scale", [4.0, 3.0])
def test_bfloat16_loss_stays_bfloat16(scale):
    # The record shows it as float32, which NumPy has.
    optimizer = harness.wrapped("stable", families.CURRENT, kind="fixed", scale=scale)
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
    assert messages.is_as_clear(message, recorded) == is_clear
