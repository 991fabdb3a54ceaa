"""The state of optimizers of Keras 3: state trees and lists of variables.

`tests/state` tests all formats with each family.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import numpy

X = np.random.RandomState(0).rand(8, 3).astype("float32")
Y = X.sum(1, keepdims=True)


def make_optimizer(cls=tf_lso.LossScaleOptimizer, **scale_arguments):
    keras.backend.clear_session()  # so that variables get the same names each time
    return cls(keras.optimizers.Adam(0.01), **scale_arguments)


def trained_model(optimizer, steps=2):
    """Return a model after some finite steps and one skipped step, or after no step."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile(optimizer, keras.losses.MeanSquaredError(), run_eagerly=True)
    if steps:
        train(model, steps)
        model.train_on_batch(X * np.inf, Y)
    return model


def train(model, steps=2):
    for _ in range(steps):
        model.train_on_batch(X, Y)


def assert_equal(model, other):
    """Check that two models have equal weights, and their optimizers equal states."""
    np.testing.assert_equal(
        [*model.get_weights(), *model.optimizer.get_weights()],
        [*other.get_weights(), *other.optimizer.get_weights()],
    )


def test_set_weights_accepts_the_values_of_variables():
    model = trained_model(make_optimizer())
    other = trained_model(make_optimizer(), steps=1)
    other.optimizer.set_weights([numpy(v) for v in model.optimizer.variables])
    np.testing.assert_equal(
        other.optimizer.get_weights(), model.optimizer.get_weights()
    )


def test_build_refuses_other_variables_than_those_of_the_weights():
    model = trained_model(make_optimizer())
    optimizer = make_optimizer()
    optimizer.set_weights(model.optimizer.get_weights())
    with pytest.raises(ValueError, match=r"4 slots, but .* has 2"):
        optimizer.build(model.trainable_variables[:1])


def test_the_wrapper_of_a_built_optimizer_is_built():
    inner, variable = keras.optimizers.SGD(0.5), tf.Variable(1.0)
    inner.build([variable])
    optimizer = tf_lso.LossScaleOptimizer(inner, initial_scale=4)
    assert optimizer.built
    optimizer.apply([tf.constant(4.0)])  # a scaled gradient
    assert variable.numpy() == 0.5


def test_a_build_for_no_variables_does_nothing():
    optimizer = make_optimizer()
    optimizer.build([])
    assert not optimizer.built and not optimizer.inner_optimizer.built


def test_the_variables_of_the_scale_are_keras_variables_that_share_its_value():
    optimizer = make_optimizer()
    # Keras 3.0 does not export the class of its own variables. So take it from one of them.
    cls = type(keras.optimizers.SGD().iterations)
    assert all(isinstance(v, cls) for v in optimizer.variables)
    optimizer.dynamic_scale.assign(4.0)
    optimizer.step_counter.assign_add(3)
    values = float(optimizer.loss_scale), int(optimizer.dynamic_counter)
    assert values == (4.0, 3)


# --- State trees.

has_state_trees = pytest.mark.skipif(
    not hasattr(keras.Model, "get_state_tree"), reason="Keras has them since 3.3"
)


def leaf_paths(tree, path=()):
    """Return the set of the paths of all values in a tree of dicts."""
    if not isinstance(tree, dict):
        return {path}
    return set().union(*(leaf_paths(tree[key], (*path, key)) for key in tree))


@has_state_trees
def test_a_state_tree_has_the_names_of_the_loss_scale_optimizer_of_keras():
    of_keras = make_optimizer(cls=keras.optimizers.LossScaleOptimizer)
    expected = trained_model(of_keras).get_state_tree()
    tree = trained_model(make_optimizer()).get_state_tree()
    assert leaf_paths(tree) == leaf_paths(expected)
    variables = tree["optimizer_variables"]["loss_scale_optimizer"]
    assert float(variables["dynamic_scale"]) == 16384.0
    assert int(variables["step_counter"]) == 0


@has_state_trees
@pytest.mark.parametrize("dynamic, steps", [(True, 2), (True, 0), (False, 2)])
def test_a_state_tree_can_be_set_on_another_model(dynamic, steps):
    scale = {"dynamic": dynamic, "initial_scale": 8.0}
    model = trained_model(make_optimizer(**scale), steps)
    other = trained_model(make_optimizer(**scale), steps)
    model.optimizer.iterations = 7
    if dynamic:
        model.optimizer.dynamic_scale.assign(64.0)
    other.set_state_tree(model.get_state_tree(value_format="numpy_array"))
    assert float(other.optimizer.loss_scale) == (64.0 if dynamic else 8.0)
    assert int(other.optimizer.iterations) == 7
    paths = [variable.path for variable in model.optimizer.variables]
    assert [variable.path for variable in other.optimizer.variables] == paths
    assert_equal(model, other)
    train(model)
    train(other)
    assert_equal(model, other)
