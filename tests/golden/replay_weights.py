"""Replays weights, variables and slots: many calls on one optimizer, each a case."""

import functools

import numpy as np
import tensorflow as tf

from tests.families import raw
from tests.golden import harness
from tests.golden.encoding import attempt


def _named(variables):
    return [
        [raw(v).name, np.asarray(v.numpy()).tolist()]
        for v in (variables() if callable(variables) else variables)
    ]


@functools.cache
def _weights_story(wrap, family, inner):
    """All calls, on one optimizer: {name of the call: what it gave}."""
    optimizer = wrap(harness.inner_optimizer(family, inner))
    x, y = tf.Variable(1.0, name="x"), tf.Variable([1.0, 2.0], name="y")
    slot = {"SGD": "momentum", "Adam": "m"}[inner]
    story = {"before": attempt(lambda: optimizer.weights)}
    optimizer.apply_gradients([(tf.constant(0.5), x), (tf.constant([0.5, 0.25]), y)])

    def three():
        optimizer.set_weights([np.full_like(w, 3) for w in optimizer.get_weights()])
        return {
            "counter": int(optimizer.dynamic_counter.numpy()),
            "iterations": int(optimizer.iterations.numpy()),
            "loss_scale": float(optimizer.loss_scale),
            "slots": {
                name: [optimizer.get_slot(v, name).numpy().tolist() for v in (x, y)]
                for name in optimizer.get_slot_names()
            },
            "vars": [v.numpy().tolist() for v in (x, y)],
        }

    def is_of_inner():
        found = optimizer.get_slot(x, slot)
        variables = optimizer._optimizer.variables
        variables = variables() if callable(variables) else variables
        return any(found is variable for variable in variables)

    def holds_the_scale():
        return any(v.name.startswith("current_loss_scale") for v in optimizer.weights)

    calls = {
        "weights": lambda: [[raw(v).name, v] for v in optimizer.weights],
        "variables": lambda: _named(optimizer.variables),
        "variables_is_callable": lambda: callable(optimizer.variables),
        "loss_scale_in_weights": holds_the_scale,
        "get_weights": lambda: [w.tolist() for w in optimizer.get_weights()],
        "get_slot_names": lambda: optimizer.get_slot_names(),
        "set_weights_wrong_len": lambda: optimizer.set_weights([1.0]),
        "set_weights_to_3": three,
        "get_slot": lambda: optimizer.get_slot(x, slot),
        "get_slot_bogus": lambda: optimizer.get_slot(x, "bogus"),
        "get_slot_same_object_as_inner": is_of_inner,
        "add_slot": lambda: optimizer.add_slot(x, "added"),
        "add_slot_init": lambda: optimizer.add_slot(y, "ones", initializer="ones"),
        "add_weight": lambda: optimizer.add_weight("added", shape=()),
    }
    return story | {name: attempt(call) for name, call in calls.items()}


def replay(wrap, family, case):
    """What the record holds for a case `weights` of `hyperparameters`."""
    return _weights_story(wrap, family, case["inner"])[case["attribute"]]
