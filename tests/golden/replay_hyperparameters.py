"""Replays what programs read and set on a loss-scaled optimizer.

`replay` takes (wrap, family, case), as the functions of `replays.py` do, where `wrap`
takes the inner optimizer and wraps it with a scale of 4 that grows after 2 steps.
"""

import functools

import tensorflow as tf

import tf_lso
from tests.families import keras, keras2
from tests.golden import harness, replay_weights, replays
from tests.golden.encoding import attempt, encode, public
from tf_lso.keras.mixed_precision import experimental

# What each attribute was set to.
VALUES = {
    "amsgrad": True,
    "beta_1": 0.5,
    "bogus": 1,
    "clipnorm": 0.125,
    "clipvalue": 0.125,
    "decay": 0.5,
    "dynamic": False,
    "dynamic_counter": 1,
    "dynamic_growth_steps": 7,
    "epsilon": 0.5,
    "global_clipnorm": 0.125,
    "initial_scale": 2.0,
    "inner_optimizer": None,
    "learning_rate": 0.5,
    "loss_scale": 2.0,
    "lr": 0.5,
    "momentum": 0.25,
    "name": "zz",
    "nesterov": True,
    "use_ema": True,
    "weights": [],
}


def ours_experimental(inner):
    """Wrap `inner` in tf_lso's optimizer of 2.0-2.8."""
    scale = tf_lso.DynamicLossScale(4.0, increment_period=2)
    return experimental.LossScaleOptimizer(inner, scale)


OURS = {"stable": harness.ours, "experimental": ours_experimental}


# --- One attribute.


@functools.cache
def _all_read(wrap, family, inner, names):
    """What each attribute of one optimizer gave, read one after the other."""
    optimizer = wrap(harness.inner_optimizer(family, inner))
    return {name: attempt(lambda name=name: getattr(optimizer, name)) for name in names}


def _read(wrap, family, case):
    # One optimizer for all, since the first that is read may create variables.
    key = {k: case[k] for k in ("api", "inner", "case")}
    found = harness.cases("hyperparameters", "behaviour", **key)
    names = tuple(sorted(other["attribute"] for other, _ in found))
    return _all_read(wrap, family, case["inner"], names)[case["attribute"]]


def _set(wrap, family, case):
    name = case["attribute"]
    optimizer = wrap(harness.inner_optimizer(family, case["inner"]))
    inner = optimizer._optimizer
    inner_name = "learning_rate" if (family, name) == ("keras3", "lr") else name

    def run():
        setattr(optimizer, name, VALUES[name])
        return {
            "get": attempt(lambda: getattr(optimizer, name)),
            "inner_get": attempt(lambda: getattr(inner, inner_name)),
            "step": attempt(lambda: _stepped(optimizer, tf.Variable(1.0))),
        }

    return replays.attempt(run)


def _stepped(optimizer, variable):
    """The variable's value after a step with the gradient 1."""
    optimizer.apply_gradients([(tf.constant(1.0), variable)])
    return float(variable.numpy())


# --- dir and isinstance


def _dir(wrap, family, case):
    optimizer = wrap(harness.inner_optimizer(family, case["inner"]))
    return public({"ok": dir(optimizer)})


def _isinstance(wrap, family, case):
    optimizer = wrap(harness.inner_optimizer(family, case["inner"]))
    if wrap is harness.reference:
        stable, other = keras2.mixed_precision.LossScaleOptimizer, None
    else:
        stable, other = tf_lso.LossScaleOptimizer, experimental.LossScaleOptimizer
    optimizers = keras.optimizers if family == "keras3" else keras2.optimizers
    return {
        "ok": {
            "K.optimizers.Optimizer": isinstance(optimizer, optimizers.Optimizer),
            "LSO": isinstance(optimizer, stable),
            "XLSO": None if other is None else isinstance(optimizer, other),
        }
    }


# --- learning_rate and iterations


def _lr_assign(optimizer, variable):
    _stepped(optimizer, variable)
    optimizer.lr.assign(0.25)
    return [_stepped(optimizer, variable), encode(optimizer.learning_rate)]


def _lr_change(optimizer, variable):
    values = [_stepped(optimizer, variable)]
    for name, rate in (("learning_rate", 0.0), ("lr", 1.0)):
        setattr(optimizer, name, rate)
        values.append(_stepped(optimizer, variable))
    inner = optimizer._optimizer
    return [*values, encode(optimizer.lr), encode(inner.learning_rate)]


def _iterations_assign(optimizer, variable):
    optimizer.iterations.assign(5)
    value = _stepped(optimizer, variable)
    return [encode(optimizer.iterations), value]


def _iterations_set(optimizer, variable):
    del variable
    optimizer.iterations = tf.Variable(7, dtype=tf.int64)
    return [encode(optimizer.iterations), encode(optimizer._optimizer.iterations)]


def _iterations_set_after_access(optimizer, variable):
    assert int(optimizer.iterations.numpy()) == 0
    return _iterations_set(optimizer, variable)


def _on_a_new_optimizer(run):
    def replay_it(wrap, family, case):
        optimizer = wrap(harness.inner_optimizer(family, case["inner"]))
        return replays.attempt(lambda: run(optimizer, tf.Variable(1.0)))

    return replay_it


def _lr_schedule(wrap, family, case):
    optimizer = wrap(harness.inner_optimizer(family, case["inner"], "schedule"))

    def type_of(name):
        return getattr(optimizer, name).__class__.__name__

    return {
        "ok": {
            "callable_value": attempt(lambda: float(optimizer.learning_rate(5))),
            "learning_rate": attempt(lambda: type_of("learning_rate")),
            "lr": attempt(lambda: type_of("lr")),
        }
    }


_REPLAYS = {
    "get": _read,
    "set": _set,
    "dir": _dir,
    "isinstance": _isinstance,
    "lr_assign": _on_a_new_optimizer(_lr_assign),
    "lr_change_mid_training": _on_a_new_optimizer(_lr_change),
    "lr_schedule_get": _lr_schedule,
    "iterations_assign": _on_a_new_optimizer(_iterations_assign),
    "iterations_set": _on_a_new_optimizer(_iterations_set),
    "iterations_set_after_access": _on_a_new_optimizer(_iterations_set_after_access),
    "weights": replay_weights.replay,
}


def replay(wrap, family, case):
    """What the record holds for a case of `hyperparameters`."""
    return _REPLAYS[case["case"]](wrap, family, case)
