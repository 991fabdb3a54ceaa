"""Keras 3's `get_state_tree` and `set_state_tree` with a wrapped optimizer."""

import keras
import numpy as np
import pytest

import tf_lso

pytestmark = pytest.mark.skipif(
    not hasattr(keras.Model, "get_state_tree"), reason="Keras since 3.3 has them"
)
_X, _Y = np.ones([8, 3], "float32"), np.ones([8, 1], "float32")


def _model(wrapper, trained):
    keras.backend.clear_session()  # so that names begin anew
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile(wrapper(keras.optimizers.Adam(0.1)), "mse", run_eagerly=True)
    if trained:
        model.fit(_X, _Y, batch_size=4, verbose=0)
    return model


def _paths(tree, path=()):
    if not isinstance(tree, dict):
        return {path}
    return set().union(*(_paths(value, (*path, key)) for key, value in tree.items()))


def test_has_the_names_of_keras_s_own_wrapper():
    own = _model(keras.optimizers.LossScaleOptimizer, True).get_state_tree()
    ours = _model(tf_lso.LossScaleOptimizer, True).get_state_tree()
    assert _paths(ours) == _paths(own)
    wrapper = ours["optimizer_variables"]["loss_scale_optimizer"]
    assert float(wrapper["dynamic_scale"]) == 32768.0
    assert int(wrapper["step_counter"]) == 2


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("dynamic", [True, False])
def test_goes_into_another_model(dynamic, trained):
    def wrapper(inner):
        scale = {"dynamic": dynamic, "initial_scale": 8.0}
        return tf_lso.LossScaleOptimizer(inner, **scale)

    model = _model(wrapper, trained)
    model.optimizer.iterations = 7
    if dynamic:
        model.optimizer.dynamic_scale.assign(64.0)
    tree = model.get_state_tree(value_format="numpy_array")
    other = _model(wrapper, trained)
    other.set_state_tree(tree)
    assert float(other.optimizer.loss_scale) == (64.0 if dynamic else 8.0)
    assert int(other.optimizer.iterations) == 7
    for one, two in zip(model.optimizer.variables, other.optimizer.variables):
        assert one.path == two.path
        np.testing.assert_array_equal(one.numpy(), two.numpy())
    for each in (model, other):
        each.fit(_X, _Y, batch_size=4, verbose=0, shuffle=False)
    np.testing.assert_array_equal(*(m.get_weights()[0] for m in (model, other)))


def test_a_summary_counts_the_optimizer_s_variables():
    lines = []
    model = _model(tf_lso.LossScaleOptimizer, True)
    model.summary(print_fn=lambda line, **_: lines.append(line))
    assert "Optimizer params" in "".join(lines)


def test_the_variables_of_the_scale_are_keras_s_and_share_its_value():
    optimizer = tf_lso.LossScaleOptimizer(keras.optimizers.SGD(0.1))
    assert all(isinstance(v, keras.Variable) for v in optimizer.variables)
    optimizer.dynamic_scale.assign(4.0)
    assert float(optimizer.loss_scale) == 4.0
    optimizer.step_counter.assign_add(3)
    assert int(optimizer.dynamic_counter) == 3
