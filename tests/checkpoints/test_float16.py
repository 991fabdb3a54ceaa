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
def saved(tmp_path_factory):
    """{family: (path, iterations, loss scale, weights after three more steps)}."""
    found = {}
    for family in FAMILIES:
        path = str(tmp_path_factory.mktemp(family) / "model.keras")
        # `keras` of TensorFlow 2.12 has fewer names than `tf.keras`.
        module = PACKAGES[family] if HAS_KERAS3 else "tensorflow.keras"
        names = {"module": module, "path": path, "zipped": ZIPPED}
        optimizer = "legacy.Adam" if family == "legacy" else "Adam"
        program = WRITE.format(optimizer=optimizer, **names)
        *_, counts, weights = run(program, by=preloaded.run)
        iterations, scale = map(float, counts.split())
        found[family] = path, iterations, scale, [float(w) for w in weights.split()]
    return found


def train_three_steps(model):
    """Train a model, and return all its weights as one array."""
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


def new_model():
    return keras.Sequential(
        [
            keras.layers.InputLayer((3,)),
            keras.layers.Dense(2, dtype="mixed_float16", name="a"),
            keras.layers.Dense(1, dtype="mixed_float16", name="b"),
        ]
    )


WARNING = "given to restore() (Adam) scales no loss"


@needs_keras3
def test_restore_warns_about_an_optimizer_without_loss_scaling(
    saved, caplog, monkeypatch
):
    monkeypatch.setattr(wrapping, "_once", log.Once())  # other tests may have warned
    path, iterations, _, _ = saved["keras3"]
    model, optimizer = new_model(), FAMILIES["keras3"].Adam(0.1)
    assert checkpoints.restore(path, model=model, optimizer=optimizer).complete
    assert int(numpy(optimizer.iterations)) == iterations
    assert WARNING in caplog.text


@needs_keras3
def test_restore_restores_the_state_of_keras_into_a_wrapped_optimizer(
    saved, caplog, monkeypatch
):
    monkeypatch.setattr(wrapping, "_once", log.Once())
    path, iterations, scale, _ = saved["keras3"]
    model = new_model()
    optimizer = tf_lso.wrap(FAMILIES["keras3"].Adam(0.1), model)
    assert checkpoints.restore(path, model=model, optimizer=optimizer).complete
    assert int(numpy(optimizer.iterations)) == iterations
    assert float(optimizer.loss_scale) == scale
    assert WARNING not in caplog.text
