"""Replays ten batches of `train_on_batch`, some of which are not finite."""

import numpy as np

import tf_lso
from tests import families
from tests.families import keras, keras2
from tests.golden import harness, replays
from tf_lso.keras.mixed_precision import experimental

# Ten batches of matrices of other sizes, and a float32 tanh, in other kernels.
_TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}
# Keras 3's Adam rounds otherwise than OptimizerV2's; see `test_trajectories.py`.
OTHER_FORMULA = {"rtol": 1e-5, "atol": 1e-5}


def wrapped(api, inner, kind, scale, growth):
    """Wrap as that generation does."""
    if api == "stable":
        return harness.ours(inner, kind, scale, growth)
    fixed = kind == "fixed"
    loss_scale = scale if fixed else tf_lso.DynamicLossScale(scale, growth)
    return experimental.LossScaleOptimizer(inner, loss_scale)


def _optimizer(family, case):
    inner = harness.inner_optimizer(family, case["inner"])
    return wrapped(case["api"], inner, case["kind"], case["scale"], case["growth"])


def _model(family, weights):
    layers = (keras if family == "keras3" else keras2).layers
    module = keras if family == "keras3" else keras2
    model = module.Sequential([layers.Dense(2, activation="tanh"), layers.Dense(1)])
    model.build((None, 3))
    model.set_weights(weights)
    return model


def _row(loss, model):
    optimizer = model.optimizer
    counter = optimizer.dynamic_counter
    return {
        "loss": float(loss),
        "weights": [w.tolist() for w in model.get_weights()],
        "loss_scale": float(optimizer.loss_scale),
        "counter": None if counter is None else int(families.numpy(counter)),
        "iterations": int(families.numpy(optimizer.iterations)),
    }


def _inputs(name):
    values = harness.record("training")["inputs"][name]
    return [np.float32(harness.number(value)) for value in values]


def replay(family, case):
    """What the record holds for a case of `keras_training`."""

    def run():
        model = _model(family, _inputs("W"))
        optimizer = _optimizer(family, case)
        model.compile(optimizer, "mse", run_eagerly=case["run_eagerly"])
        rows = []
        for x, y in zip(_inputs("X"), _inputs("Y")):
            model.reset_metrics()  # Keras 3.0 gives the mean of all batches so far
            rows.append(_row(model.train_on_batch(x, y), model))
        return {"rows": rows}

    return replays.attempt(run)


def equal(actual, expected, case, family):
    """Scale, counter and iterations are the same, floats as close as kernels are."""
    other = family == "keras3" and case["inner"] == "Adam"
    tolerance = OTHER_FORMULA if other else _TOLERANCE
    counts = [
        [{k: row[k] for k in ("loss_scale", "counter", "iterations")} for row in rows]
        for rows in (actual["ok"]["rows"], expected["ok"]["rows"])
    ]
    return counts[0] == counts[1] and replays.equal(actual, expected, False, tolerance)
