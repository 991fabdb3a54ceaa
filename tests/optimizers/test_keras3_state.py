"""What Keras 3 alone has for state: its .h5 files, state trees and lists of variables.

All formats, with each family: `tests/state`.
"""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import OLD_KERAS3, numpy

X = np.random.RandomState(0).rand(8, 3).astype("float32")
Y = X.sum(1, keepdims=True)
EIGHT = {"initial_scale": 8.0}


def wrapped(name="Adam", cls=tf_lso.LossScaleOptimizer, **scale):
    keras.backend.clear_session()  # so that names begin anew
    return cls(getattr(keras.optimizers, name)(0.01), **scale)


def trained(optimizer, steps=2):
    """A model that has taken some good steps, and one that overflows."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile(optimizer, keras.losses.MeanSquaredError(), run_eagerly=True)
    if steps:
        go_on(model, steps=steps)
        model.train_on_batch(X * np.inf, Y)
    return model


def go_on(*models, steps=2):
    for model in models:
        for _ in range(steps):
            model.train_on_batch(X, Y)


def assert_equal(one, other):
    """The models have the same weights, the optimizers the same state."""
    states = [[*m.get_weights(), *m.optimizer.get_weights()] for m in (one, other)]
    np.testing.assert_equal(*states)


@pytest.mark.skipif(OLD_KERAS3, reason="it gives two variables one name, and fails")
@pytest.mark.parametrize(
    "name, install", [("SGD", True), ("RMSprop", True), ("Ftrl", False)]
)
def test_training_resumes_bit_for_bit_from_an_h5_file(name, install, tmp_path):
    model = trained(wrapped(name, initial_scale=64))
    model.save(tmp_path / "model.h5")
    # Keras 3 gives the optimizer its variables only after that: by install() at once,
    # else with the first step.
    with tf_lso.install() if install else contextlib.nullcontext():
        loaded = keras.models.load_model(tmp_path / "model.h5")
    assert isinstance(loaded.optimizer, tf_lso.LossScaleOptimizer)
    if install:
        assert float(loaded.optimizer.loss_scale) == 32.0
        assert_equal(model, loaded)
    go_on(model, loaded)
    assert_equal(model, loaded)


def test_set_weights_before_and_after_building():
    model, other = trained(wrapped()), trained(wrapped(), steps=1)
    weights = model.optimizer.get_weights()
    # The values of variables too.
    other.optimizer.set_weights([numpy(v) for v in model.optimizer.variables])
    waiting, wrong = wrapped(), wrapped()
    for optimizer in (waiting, wrong):
        optimizer.set_weights(weights)
    waiting.build(model.trainable_variables)
    for optimizer in (other.optimizer, waiting):
        np.testing.assert_equal(optimizer.get_weights(), weights)
    with pytest.raises(ValueError, match=r"4 slots, but .* has 2"):
        wrong.build(model.trainable_variables[:1])


def test_set_weights_before_building_sets_the_learning_rate_at_once():
    source = trained(wrapped())
    source.optimizer.learning_rate = 0.25
    optimizer = wrapped()
    optimizer.set_weights([numpy(v) for v in source.optimizer.variables])
    assert numpy(optimizer.learning_rate) == 0.25
    optimizer.build(source.trainable_variables)
    assert numpy(optimizer.learning_rate) == 0.25


def test_the_wrapper_of_a_built_optimizer_is_built():
    inner, variable = keras.optimizers.SGD(0.5), tf.Variable(1.0)
    inner.build([variable])
    optimizer = tf_lso.LossScaleOptimizer(inner, initial_scale=4)
    assert optimizer.built
    optimizer.apply([tf.constant(4.0)])  # a scaled gradient
    assert variable.numpy() == 0.5


def test_building_on_nothing_builds_nothing():
    optimizer = wrapped()
    optimizer.build([])
    assert not optimizer.built and not optimizer.inner_optimizer.built


def test_the_variables_of_the_scale_are_keras_s_and_share_its_value():
    optimizer = wrapped()
    # Keras 3.0 does not export the class of its own variables. So take it from one of them.
    cls = type(keras.optimizers.SGD().iterations)
    assert all(isinstance(v, cls) for v in optimizer.variables)
    optimizer.dynamic_scale.assign(4.0)
    optimizer.step_counter.assign_add(3)
    values = float(optimizer.loss_scale), int(optimizer.dynamic_counter)
    assert values == (4.0, 3)


# --- State trees, and what a summary counts.

has_trees = pytest.mark.skipif(
    not hasattr(keras.Model, "get_state_tree"), reason="Keras since 3.3 has them"
)


def paths(tree, path=()):
    if not isinstance(tree, dict):
        return {path}
    return set().union(*(paths(value, (*path, key)) for key, value in tree.items()))


@has_trees
def test_a_tree_has_the_names_of_keras_s_own_wrapper():
    model = trained(wrapped())
    ours = model.get_state_tree()
    own = trained(wrapped(cls=keras.optimizers.LossScaleOptimizer)).get_state_tree()
    assert paths(ours) == paths(own)
    wrapper = ours["optimizer_variables"]["loss_scale_optimizer"]
    assert float(wrapper["dynamic_scale"]) == 16384.0
    assert int(wrapper["step_counter"]) == 0
    lines = []
    model.summary(print_fn=lambda line, **_: lines.append(line))
    assert "Optimizer params" in "".join(lines)


@has_trees
@pytest.mark.parametrize(
    "scale, steps", [(EIGHT, 2), (EIGHT, 0), (EIGHT | {"dynamic": False}, 2)]
)
def test_a_tree_goes_into_another_model(scale, steps):
    model, other = (trained(wrapped(**scale), steps) for _ in "ab")
    model.optimizer.iterations = 7
    if "dynamic" not in scale:
        model.optimizer.dynamic_scale.assign(64.0)
    other.set_state_tree(model.get_state_tree(value_format="numpy_array"))
    for one in (model, other):
        assert float(one.optimizer.loss_scale) == (8.0 if "dynamic" in scale else 64.0)
    assert int(other.optimizer.iterations) == 7
    for one, two in zip(model.optimizer.variables, other.optimizer.variables):
        assert one.path == two.path
    assert_equal(model, other)
    if "dynamic" not in scale:  # which has applied what is not finite
        go_on(model, other)
        assert_equal(model, other)
