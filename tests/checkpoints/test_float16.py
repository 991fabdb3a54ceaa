"""Files of float16 models. They do not say that the optimizer was wrapped by Keras itself."""

import numpy as np
import pytest

import tf_lso
from tests import preloaded
from tests.families import FAMILIES, PACKAGES, keras, keras2, needs_keras3, numpy
from tests.generation import HAS_KERAS3, ZIPPED
from tests.processes import run
from tf_lso import checkpoints
from tf_lso.frameworks import log
from tf_lso.optimizers import wrapping

X = np.float32([[0.5, 1.0, -1.0], [0.25, -0.5, 2.0], [1.0, 1.0, 1.0]])
Y = np.float32([[1.0], [2.0], [3.0]])

# This program runs in a process without tf_lso, so `compile` wraps the optimizer in the wrapper
# of Keras. The file has the class of the inner optimizer, but the state of the wrapper.
WRITE = """
    import numpy as np
    import {module} as k

    x = np.float32([[0.5, 1.0, -1.0], [0.25, -0.5, 2.0], [1.0, 1.0, 1.0]])
    y = np.float32([[1.0], [2.0], [3.0]])
    k.mixed_precision.set_global_policy("mixed_float16")
    k.utils.set_random_seed(1)
    model = k.Sequential([
        k.layers.InputLayer((3,)), k.layers.Dense(2, name="a"), k.layers.Dense(1, name="b")
    ])
    optimizer = k.optimizers.{optimizer}(0.1)
    model.compile(optimizer, "mse")
    for _ in range(3):
        model.train_on_batch(x, y)
    model.save({path!r}, **{zipped})
    scale = getattr(model.optimizer, "dynamic_scale", 0.0)
    print(int(np.asarray(optimizer.iterations)), float(np.asarray(scale)))
    for _ in range(3):
        model.train_on_batch(x, y)
    print(*np.concatenate([w.ravel() for w in model.get_weights()]).tolist())
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """{family: (path, iterations, loss scale, weights after three more steps)}."""
    found = {}
    for family in FAMILIES:
        path = str(tmp_path_factory.mktemp(family) / "model.keras")
        # `keras` of TensorFlow 2.12 has fewer names than `tf.keras`.
        module = PACKAGES[family] if HAS_KERAS3 else "tensorflow.keras"
        names = {"module": module, "path": path, "zipped": ZIPPED}
        optimizer = "legacy.Adam" if family == "legacy" else "Adam"
        program = WRITE.format(optimizer=optimizer, **names)
        lines = run(program, by=preloaded.run)[-2:]
        (iterations, scale), weights = (map(float, line.split()) for line in lines)
        found[family] = path, iterations, scale, list(weights)
    return found


def go_on(model):
    for _ in range(3):
        model.train_on_batch(X, Y)
    return np.concatenate([w.ravel() for w in model.get_weights()])


READERS = [("keras3", keras), ("new", keras2)]


@pytest.mark.parametrize(("family", "module"), READERS)
def test_a_model_of_keras_is_wrapped_and_goes_on(family, module, written, caplog):
    path, iterations, scale, after = written[family]
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
        after_all = go_on(model)
    if family == "keras3":
        np.testing.assert_allclose(after_all, after, rtol=1e-2, atol=1e-2)


def test_state_that_is_not_in_the_file_is_told_of(written, caplog):
    with tf_lso.install():
        model = keras2.models.load_model(written["legacy"][0])
    assert isinstance(model.optimizer, tf_lso.LossScaleOptimizer)
    assert "state" in caplog.text


@pytest.mark.parametrize("wrap", [True, False])
@needs_keras3
def test_restore_tells_of_an_optimizer_that_scales_nothing(
    wrap, written, caplog, monkeypatch
):
    monkeypatch.setattr(wrapping, "_once", log.Once())
    path, iterations, scale, _ = written["keras3"]
    layers = keras.layers
    dense = [
        layers.Dense(n, dtype="mixed_float16", name=i) for i, n in (("a", 2), ("b", 1))
    ]
    model = keras.Sequential([layers.InputLayer((3,)), *dense])
    optimizer = FAMILIES["keras3"].Adam(0.1)
    if wrap:
        optimizer = tf_lso.wrap(optimizer, model)
    assert checkpoints.restore(path, model=model, optimizer=optimizer).complete
    assert int(numpy(optimizer.iterations)) == iterations
    assert ("given to restore() (Adam) scales no loss" in caplog.text) is not wrap
    if wrap:
        assert float(optimizer.loss_scale) == scale
