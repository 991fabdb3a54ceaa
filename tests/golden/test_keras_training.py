"""Replay ten calls of `train_on_batch`. Some of the batches are not finite."""

import numpy as np
import pytest

from tests.families import KERASES
from tests.golden import encoding, harness
from tests.golden.comparing import (
    Section,
    check_all,
    grouped,
    slow_except_stable_and_current,
)

# Ten batches add up the differences between kernels for matrix products and for float32 tanh.
_TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}
# Adam of Keras 3 rounds differently from Adam of OptimizerV2, see `test_trajectories.py`.
ADAM_TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


def _inputs(name):
    values = harness.record("training")["inputs"][name]
    return [np.float32(value) for value in values]


def replay(api, family, case):
    keras = KERASES[family]
    dense = keras.layers.Dense
    model = keras.Sequential([dense(2, activation="tanh"), dense(1)])
    model.build((None, 3))
    model.set_weights(_inputs("W"))
    configuration = {name: case[name] for name in ("kind", "scale", "growth")}
    optimizer = harness.wrapped(api, family, case["inner"], **configuration)
    model.compile(optimizer, "mse", run_eagerly=case["run_eagerly"])
    rows = []
    for x, y in zip(_inputs("X"), _inputs("Y")):
        model.reset_metrics()  # Keras 3.0 returns the mean of all batches so far
        loss = float(model.train_on_batch(x, y))
        weights = [w.tolist() for w in model.get_weights()]
        rows.append({"loss": loss, "weights": weights, **harness.counts(optimizer)})
    return {"rows": rows}


def _same(actual, expected, case, family):
    """Compare loss scale, counter and iterations exactly, and other floats with a tolerance."""
    is_keras3_adam = family == "keras3" and case["inner"] == "Adam"
    tolerance = ADAM_TOLERANCE if is_keras3_adam else _TOLERANCE
    counts = encoding.without(actual, "loss", "weights")
    expected_counts = encoding.without(expected, "loss", "weights")
    return encoding.equal(counts, expected_counts) and encoding.equal(
        actual, expected, tolerance
    )


SECTIONS = [
    Section(
        "training",
        "keras_training",
        replay,
        _same,
        marks=slow_except_stable_and_current,
    )
]


@pytest.mark.parametrize("replays", grouped(SECTIONS))
def test_equals_every_version(replays):
    check_all(replays)


@pytest.mark.slow
def test_batches_equal_those_of_tf_keras_to_the_last_bit():
    """Replay tf_keras here, since the processor of the record may have rounded differently."""
    (section,), played = SECTIONS, 0
    for case, results, family in section.replays():
        if family != "keras3" and harness.result_of(results, harness.REFERENCE):
            actual = section.actual(family, case)
            assert encoding.equal(actual, section.on_tf_keras(case)), case
            played += 1
    assert played == 16, "each of the 16 recorded cases of tf_keras should run"
