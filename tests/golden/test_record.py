"""The recorded files are unchanged, and the tests replay all of them."""

import hashlib

import pytest

from tests.families import needs_keras3
from tests.generation import limit
from tests.golden import (
    harness,
    test_attributes,
    test_calls,
    test_checkpoints,
    test_configs,
    test_distribution,
    test_errors,
    test_graph_rewrite,
    test_keras_training,
    test_loss_scales,
    test_policies,
    test_trajectories,
    test_warnings,
)

SECTIONS = [
    *test_attributes.SECTIONS,
    *test_calls.SECTIONS,
    *test_checkpoints.SECTIONS,
    *test_configs.SECTIONS,
    *test_distribution.SECTIONS,
    *test_errors.SECTIONS,
    *test_graph_rewrite.SECTIONS,
    *test_keras_training.SECTIONS,
    *test_loss_scales.SECTIONS,
    *test_policies.SECTIONS,
    *test_trajectories.SECTIONS,
    *test_warnings.SECTIONS,
]


def test_no_file_has_been_edited_or_replaced():
    """Later recordings go into new files in the same folder."""
    lines = (harness.RECORDS / "SHA256SUMS").read_text().splitlines()
    sums = {file: expected for expected, file in map(str.split, lines)}
    assert {path.name for path in harness.RECORDS.glob("*.gz")} <= sums.keys()
    for file, expected in sums.items():
        content = (harness.RECORDS / file).read_bytes()
        assert hashlib.sha256(content).hexdigest() == expected


def test_every_section_of_the_record_is_replayed():
    recorded = {
        (file, name)
        for file in [path.name.split(".")[0] for path in harness.RECORDS.glob("*.gz")]
        for name in harness.record(file)["sections"]
    }
    assert {(section.file, section.name) for section in SECTIONS} == recorded


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
        _named(s, marks=_KERAS_3_0_POLICIES if s.name == "policies" else ())
        for s in SECTIONS
    ],
)
def test_every_difference_applies_to_a_case(section):
    replays = list(section.replays())
    for difference in section.differences():
        assert any(difference.applies_to(case, family) for case, _, family in replays)


@pytest.mark.skipif(
    not harness.SAME_KERNELS, reason="other kernels than those recorded"
)
@pytest.mark.parametrize(
    ("section", "more_than"),
    [
        *(_named(s, 0) for s in test_calls.SECTIONS),
        *(_named(s, 40, marks=pytest.mark.slow) for s in test_trajectories.SECTIONS),
        *(_named(s, 50) for s in test_attributes.SECTIONS),
        *(_named(s, 50) for s in test_errors.SECTIONS),
    ],
)
def test_the_replays_are_right(section, more_than):
    """With the same replays, the wrapper of tf_keras gives the results in its record.

    `more_than` makes sure that the section still finds its recorded cases.
    """
    played, wrong = section.wrong_on_tf_keras()
    assert not wrong
    assert played > more_than
