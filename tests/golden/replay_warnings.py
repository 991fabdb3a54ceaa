"""Replays what programs are warned of."""

import logging
import re

import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, here
from tests.golden import replays
from tests.golden.replay_policies import Api
from tf_lso import log
from tf_lso.keras.mixed_precision import experimental
from tf_lso.policies import api

# What a warning of tf_lso tells of, by the names that the record has for it.
TOLD = {
    "get_scaled_loss and get_unscaled_gradients": r"get_scaled_loss\(\) and \S+ were not",
    "get_scaled_loss": r"get_scaled_loss\(\) was not",
    "get_unscaled_gradients": r"get_unscaled_gradients\(\) was not",
    "deprecated": r"is deprecated",
    "float16 is slow here": r"may run slowly",
}

# tf_keras tells of its own policies, once a process.
REPLAYED_ON = {
    "v2": here("legacy", "keras3"),
    "new": here("new", "keras3"),
    None: here("keras3"),
}

_LOSS_SCALES = {
    "construct_8": lambda: 8,
    "construct_DynamicLossScale_8_3": lambda: tf_lso.DynamicLossScale(8.0, 3),
    "construct_DynamicLossScale_default": lambda: tf_lso.DynamicLossScale(),
    "construct_FixedLossScale": lambda: tf_lso.FixedLossScale(8.0),
    "construct_dynamic": lambda: "dynamic",
}


def _scaled(optimizer, variable):
    with tf.GradientTape() as tape:
        loss = optimizer.get_scaled_loss(2.0 * variable)
    optimizer.apply_gradients([(tape.gradient(loss, variable), variable)])


def _unscaled(optimizer, variable):
    (gradient,) = optimizer.get_unscaled_gradients([tf.constant(2.0)])
    optimizer.apply_gradients([(gradient, variable)])


_STEPS = {
    "apply_without_scaling": lambda opt, v: opt.apply_gradients(
        [(tf.constant(2.0), v)]
    ),
    "minimize": lambda opt, v: opt.minimize(lambda: 2.0 * v, [v]),
    "only_get_scaled_loss": _scaled,
    "only_get_unscaled": _unscaled,
}

_POLICIES = {
    "Policy": lambda api: api.Policy("mixed_float16"),
    "global_policy": lambda api: api.get(),
    "set_policy": lambda api: api.set("float32"),
    "get_layer_policy": lambda api: api.get_layer_policy(api.keras.layers.Dense(1)),
}


def _act(family, name):
    if name in _POLICIES:
        api = Api("experimental", family)
        try:
            return _POLICIES[name](api)
        finally:
            api.reset()
    if name in _STEPS:
        optimizer = tf_lso.LossScaleOptimizer(FAMILIES[family].SGD(0.1))
        return _STEPS[name](optimizer, tf.Variable(1.0))
    if name in _LOSS_SCALES:
        inner = FAMILIES[family].SGD(0.1)
        return experimental.LossScaleOptimizer(inner, _LOSS_SCALES[name]())
    return getattr(tf_lso, name)(8.0)


class _Texts(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


def replay(family, case):
    """What the record holds for a case of `warnings_logged`."""
    handler, logger = _Texts(), logging.getLogger("tensorflow")
    said, api._once = api._once, log.Once()

    def run():
        _act(family, case["case"])
        text = " ".join(handler.texts)
        return [told for told, pattern in TOLD.items() if re.search(pattern, text)]

    logger.addHandler(handler)
    try:
        return replays.attempt(run)
    finally:
        api._once = said
        logger.removeHandler(handler)
