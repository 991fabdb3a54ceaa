"""Files of float16 models. They do not say that the optimizer was wrapped by Keras itself."""

import numpy as np
import pytest

import tf_lso
from tests.families import FAMILIES, KERASES, keras, keras2, needs_keras3, numpy
from tests.generation import ZIPPED
from tf_lso import checkpoints
from tf_lso.frameworks import log
from tf_lso.optimizers import wrapping

X = np.float32([[0.5, 1.0, -1.0], [0.25, -0.5, 2.0], [1.0, 1.0, 1.0]])
Y = np.float32([[1.0], [2.0], [3.0]])


def new_model(module):
    """Return a model in float16, whose optimizer Keras wraps in its own wrapper."""
    layers = module.layers
    module.mixed_precision.set_global_policy("mixed_float16")
    try:
        dense = [layers.Dense(2, name="a"), layers.Dense(1, name="b")]
        return module.Sequential([layers.InputLayer((3,)), *dense])
    finally:
        module.mixed_precision.set_global_policy("float32")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """{family: (path, iterations, loss scale, weights after three more steps)}."""
    found = {}
    for family, optimizers in FAMILIES.items():
        path = str(tmp_path_factory.mktemp(family) / "model.keras")
        KERASES[family].utils.set_random_seed(1)
        model = new_model(KERASES[family])
        model.compile(optimizers.Adam(0.1), "mse")
        assert not isinstance(model.optimizer, tf_lso.LossScaleOptimizer)
        train_three_steps(model)
        # The file has the class of the inner optimizer, but the state of the wrapper.
        model.save(path, **ZIPPED)
        scale = float(np.asarray(getattr(model.optimizer, "dynamic_scale", 0.0)))
        iterations = int(numpy(model.optimizer.iterations))
        found[family] = path, iterations, scale, train_three_steps(model)
    return found


def train_three_steps(model):
    for _ in range(3):
        model.train_on_batch(X, Y)
    return np.concatenate([w.ravel() for w in model.get_weights()])


@pytest.mark.parametrize(("family", "module"), [("keras3", keras), ("new", keras2)])
def test_a_loaded_model_is_wrapped_and_its_training_continues(
    family, module, saved, caplog
):
    path, iterations, scale, expected_weights = saved[family]
    with tf_lso.install():
        model = module.models.load_model(path)
        optimizer = model.optimizer
        assert isinstance(optimizer, tf_lso.LossScaleOptimizer)
        assert int(numpy(optimizer.iterations)) == iterations > 0
        if family == "keras3":
            assert float(optimizer.loss_scale) == scale
        else:  # tf_keras does not save the loss scale
            assert "loss scale" in caplog.text
            optimizer.loss_scale_state._current_loss_scale.assign(1024.0)
        weights = train_three_steps(model)
    if family == "keras3":
        np.testing.assert_allclose(weights, expected_weights, rtol=1e-2, atol=1e-2)


def test_a_warning_says_that_the_file_lacks_state(saved, caplog):
    path, *_ = saved["legacy"]
    with tf_lso.install():
        model = keras2.models.load_model(path)
    assert isinstance(model.optimizer, tf_lso.LossScaleOptimizer)
    assert "state" in caplog.text


WARNING = "given to restore() (Adam) scales no loss"


@needs_keras3
@pytest.mark.parametrize("is_wrapped", [True, False])
def test_restore_warns_if_the_optimizer_scales_no_loss(
    is_wrapped, saved, caplog, monkeypatch
):
    monkeypatch.setattr(wrapping, "_once", log.Once())  # other tests may have warned
    path, iterations, scale, _ = saved["keras3"]
    model, optimizer = new_model(keras), FAMILIES["keras3"].Adam(0.1)
    if is_wrapped:
        optimizer = tf_lso.wrap(optimizer, model)
    assert checkpoints.restore(path, model=model, optimizer=optimizer).complete
    assert int(numpy(optimizer.iterations)) == iterations
    if is_wrapped:
        assert float(optimizer.loss_scale) == scale
    assert (WARNING in caplog.text) == (not is_wrapped)
