"""Replay programs that make TensorFlow log warnings."""

import logging.handlers
import re

import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, here
from tests.golden import comparing
from tests.golden.comparing import Section, check_all, grouped, where
from tests.golden.harness import CLASSES, apply
from tests.golden.test_policies import Api
from tf_lso.frameworks import log
from tf_lso.policies import api as policies_api

# Maps the name of a warning in the record to a regular expression for the warning of tf_lso.
WARNINGS = {
    "get_scaled_loss and get_unscaled_gradients": r"get_scaled_loss\(\) and \S+ were not",
    "get_scaled_loss": r"get_scaled_loss\(\) was not",
    "get_unscaled_gradients": r"get_unscaled_gradients\(\) was not",
    "deprecated": r"is deprecated",
    "float16 is slow here": r"may run slowly",
}

# Cases without a family are about policies. They run only on Keras 3, since tf_keras also warns
# about policies, but only once in a process.
_FAMILIES = {**comparing.REPLAY_FAMILIES, None: here("keras3")}


def _step_with_scaled_loss(optimizer, variable):
    with tf.GradientTape() as tape:
        loss = optimizer.get_scaled_loss(2.0 * variable)
    optimizer.apply_gradients([(tape.gradient(loss, variable), variable)])


def _step_with_unscaled_gradients(optimizer, variable):
    (gradient,) = optimizer.get_unscaled_gradients([tf.constant(2.0)])
    optimizer.apply_gradients([(gradient, variable)])


_STEPS = {
    "apply_without_scaling": lambda optimizer, v: apply(optimizer, 2.0, v),
    "minimize": lambda optimizer, v: optimizer.minimize(lambda: 2.0 * v, [v]),
    "only_get_scaled_loss": _step_with_scaled_loss,
    "only_get_unscaled": _step_with_unscaled_gradients,
}

_LOSS_SCALES = {
    "construct_8": lambda: 8,
    "construct_DynamicLossScale_8_3": lambda: tf_lso.DynamicLossScale(8.0, 3),
    "construct_DynamicLossScale_default": tf_lso.DynamicLossScale,
    "construct_FixedLossScale": lambda: tf_lso.FixedLossScale(8.0),
    "construct_dynamic": lambda: "dynamic",
}

_POLICIES = {
    "Policy": lambda api: api.Policy("mixed_float16"),
    "global_policy": lambda api: api.get(),
    "set_policy": lambda api: api.set("float32"),
    "get_layer_policy": lambda api: api.both.get_layer_policy(
        api.keras.layers.Dense(1)
    ),
}


def _run(family, name):
    if name in _POLICIES:
        with Api("experimental", family) as api:
            return _POLICIES[name](api)
    if name in _STEPS:
        optimizer = CLASSES["stable"](FAMILIES[family].SGD(0.1))
        return _STEPS[name](optimizer, tf.Variable(1.0))
    if name in _LOSS_SCALES:
        return CLASSES["experimental"](FAMILIES[family].SGD(0.1), _LOSS_SCALES[name]())
    return getattr(tf_lso, name)(8.0)


def replay(api, family, case):
    handler = logging.handlers.BufferingHandler(capacity=10_000)
    logger = logging.getLogger("tensorflow")
    # `_once` stores which warnings were already logged. A new one makes tf_lso log them again.
    original, policies_api._once = policies_api._once, log.Once()
    logger.addHandler(handler)
    try:
        _run(family, case["case"])
    finally:
        policies_api._once = original
        logger.removeHandler(handler)
    text = " ".join(record.getMessage() for record in handler.buffer)
    return [name for name, pattern in WARNINGS.items() if re.search(pattern, text)]


SECTIONS = [
    Section(
        "training",
        "warnings_logged",
        replay,
        families=_FAMILIES,
        differs={
            "Warnings that a class is deprecated": [
                where(api=None, gives=[]),
                where(api="experimental", family="v2", gives=[]),
            ],
        },
    )
]


@pytest.mark.parametrize("replays", grouped(SECTIONS))
def test_equals_every_version(replays):
    check_all(replays)
