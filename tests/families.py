"""The installed optimizer families, for which every contract must hold.

With TensorFlow 2.16 and later, these are the families of Keras 3 and of tf_keras. With earlier
versions, they are the families of `tf.keras`, which is Keras 2. Tests get their families and
their Keras modules from this file.
"""

import importlib

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.generation import HAS_KERAS3, NO_CHECKPOINT
from tf_lso.frameworks import keras_versions
from tf_lso.keras.mixed_precision import experimental

# Marks tests of Keras 3 itself. conftest.py drops these tests if Keras 3 is not installed.
# Tests of all families use `FAMILIES`.
needs_keras3 = pytest.mark.keras3

# `KERAS2_PACKAGE` is the package of Keras 2. `keras2` is the module with the public names of
# Keras 2, and `keras` is the module with the public names of `tf.keras`.
KERAS2_PACKAGE = "tf_keras" if HAS_KERAS3 else "keras"
importlib.import_module(KERAS2_PACKAGE)
keras2 = keras_versions.public(KERAS2_PACKAGE)
keras = keras_versions.public("keras")

# Keras 3.0 differs from the later versions of Keras 3, so some tests do not apply to it.
OLD_KERAS3 = keras_versions.version("keras").startswith("3.0.")
takes_optimizers = pytest.mark.skipif(
    OLD_KERAS3, reason="checkpoints accept no optimizer of Keras 3.0"
)

FAMILIES = {
    **({"keras3": keras.optimizers} if HAS_KERAS3 else {}),
    "legacy": keras2.optimizers.legacy,
    "new": keras2.optimizers,
}

# `FAMILIES` as the parameters of a test that puts an optimizer into a checkpoint.
CHECKPOINTED = [
    pytest.param(name, marks=NO_CHECKPOINT if name == "keras3" else ())
    for name in FAMILIES
]

# The family of `tf.keras.optimizers`.
CURRENT = "keras3" if HAS_KERAS3 else "new"

# `KERASES` maps a family to the module of its Keras, and `PACKAGES` maps a family to the
# package of its Keras. The key "keras2" stands for both families of Keras 2.
KERASES = {"keras2": keras2, "legacy": keras2, "new": keras2}
PACKAGES = dict.fromkeys(KERASES, KERAS2_PACKAGE)
if HAS_KERAS3:
    KERASES["keras3"], PACKAGES["keras3"] = keras, "keras"

# The installed generations of Keras, as keys of `KERASES`.
GENERATIONS = ["keras3", "keras2"] if HAS_KERAS3 else ["keras2"]


def here(*names):
    """Return a tuple of the given names, without families that are not installed."""
    return tuple(name for name in names if name in FAMILIES)


def raw(variable):
    """Return the TensorFlow variable of a Keras variable, or any other variable itself."""
    value = getattr(variable, "value", None)
    return variable if value is None or callable(value) else value


def bare_sums(family):
    """Return whether an unwrapped optimizer of a family sums gradients over replicas.

    Optimizers of Keras 3 do so since Keras 3.2.
    """
    return family != "keras3" or keras_versions.is_at_least("keras", 3, 2)


def numpy(variable):
    """Return the value of a variable on the first local replica."""
    return copies(variable)[0]


def number(value):
    """Return a number, or the value of a variable of any Keras, as a float."""
    return float(np.asarray(raw(value)))


def copies(variable):
    """Return a list of the values of a variable on all local replicas."""
    variable = raw(variable)
    strategy = getattr(variable, "distribute_strategy", None)
    if strategy is None:
        return [variable.numpy()]
    return [v.numpy() for v in strategy.experimental_local_results(variable)]


def per_replica(strategy, values):
    """Return a per-replica tensor from a list with a value for each replica."""
    return strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(values[context.replica_id_in_sync_group])
    )


def wrapped(family, name="SGD", *args, scale=8.0, growth=1000, api="stable", **kwargs):
    """Return an optimizer of tf_lso that wraps a new inner optimizer.

    Args:
      family: "keras3", "legacy" or "new".
      name: the name of the inner optimizer's class.
      *args: the positional arguments of the class, by default a learning rate of 0.1.
      scale: the initial loss scale.
      growth: the number of finite steps after which the scale grows.
      api: "stable" for the API of TensorFlow 2.4-2.15, or "experimental" for the API of
        TensorFlow 2.1-2.3.
      **kwargs: the keyword arguments of the class.
    """
    inner = getattr(FAMILIES[family], name)(*args or (0.1,), **kwargs)
    if api == "experimental":
        return experimental.LossScaleOptimizer(
            inner, tf_lso.DynamicLossScale(scale, growth)
        )
    return tf_lso.LossScaleOptimizer(
        inner, initial_scale=scale, dynamic_growth_steps=growth
    )


def bare_step(optimizer, loss_fn, variables):
    """Take one step with an optimizer that does not scale the loss."""
    with tf.GradientTape() as tape:
        loss = loss_fn()
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))


def legacy_step(optimizer, loss_fn, variables, **keywords):
    """Take one step in the style of TensorFlow 2.4-2.15."""
    with tf.GradientTape() as tape:
        scaled = optimizer.get_scaled_loss(loss_fn())
    gradients = optimizer.get_unscaled_gradients(tape.gradient(scaled, variables))
    return optimizer.apply_gradients(zip(gradients, variables), **keywords)


def keras3_step(optimizer, loss_fn, variables):
    """Take one step in the style of Keras 3."""
    with tf.GradientTape() as tape:
        scaled = optimizer.scale_loss(loss_fn())
    return optimizer.apply_gradients(zip(tape.gradient(scaled, variables), variables))


STYLES = {"legacy": legacy_step, "keras3": keras3_step}
