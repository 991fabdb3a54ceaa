"""Replay ten calls of `train_on_batch`. Some of the batches are not finite."""

import numpy as np
import pytest

from tests.families import KERASES
from tests.golden import encoding, harness
from tests.golden.comparing import STEPS_FAMILIES, Section, check_all, grouped

# Ten batches add up the differences between kernels for matrix products and for float32 tanh.
_TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}


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
    return encoding.equal(actual, expected, _TOLERANCE)


SECTION = Section("training", "keras_training", replay, _same, families=STEPS_FAMILIES)


@pytest.mark.slow  # the quick tests of `fit` are in tests/optimizers/test_fit.py
@pytest.mark.parametrize("replays", grouped(SECTION))
def test_equals_every_version(replays):
    check_all(replays)
