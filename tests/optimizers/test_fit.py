"""`compile` and `fit` of each Keras: callbacks, replicas, custom `train_step`."""

import numpy as np
import pytest
import tensorflow as tf

from tests.contract.setting import check_state
from tests.families import KERASES, STYLES, keras2, needs_keras3, numpy, wrapped

X = np.random.default_rng(0).random((32, 3)).astype("float32")
Y = X.sum(1, keepdims=True)


@pytest.fixture
def mixed_float16(family):
    policies = KERASES[family].mixed_precision
    policies.set_global_policy("mixed_float16")
    yield
    policies.set_global_policy("float32")


def make_model(family="keras3"):
    kit = KERASES[family]
    kit.utils.set_random_seed(1)
    hidden = kit.layers.Dense(4, activation="relu")
    last = kit.layers.Dense(1, dtype="float32")
    return kit.Sequential([kit.layers.Input((3,)), hidden, last])


def make_optimizer(family="keras3", name="SGD", scale=8.0, **arguments):
    return wrapped(family, name, 0.05, scale=scale, growth=3, **arguments)


def fit(model, x=X, epochs=2, **arguments):
    return model.fit(
        x, Y, epochs=epochs, batch_size=8, shuffle=False, verbose=0, **arguments
    )


def with_nan(row):
    """The inputs with a bad row; a batch has eight."""
    x = X.copy()
    x[row] = np.nan
    return x


def test_compile_under_mixed_float16_does_not_wrap_again(family, mixed_float16):
    model, optimizer = make_model(family), make_optimizer(family, scale=2.0**10)
    model.compile(optimizer, loss="mse", run_eagerly=True)
    assert model.optimizer is optimizer
    losses = fit(model, epochs=3).history["loss"]
    assert losses[-1] < losses[0]


def test_callbacks(family, tmp_path):
    callbacks = KERASES[family].callbacks
    model = make_model(family)
    averages = {"use_ema": True, "ema_momentum": 0.9} if family == "keras3" else {}
    optimizer = make_optimizer(family, **averages)
    model.compile(optimizer, loss="mse", run_eagerly=True)
    seen = []

    class Log(callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            rate = keras2.backend.get_value(optimizer.lr)
            seen.append((float(rate), float(optimizer.loss_scale)))

    if family == "keras3":
        saving = [
            callbacks.SwapEMAWeights(swap_on_epoch=True),
            callbacks.ModelCheckpoint(str(tmp_path / "w.keras")),
        ]
    else:
        path = str(tmp_path / "w")
        saving = [callbacks.ModelCheckpoint(path, save_weights_only=True)]
    halving = callbacks.LearningRateScheduler(lambda epoch, lr: lr * 0.5)
    plateau = {"monitor": "loss", "patience": 1, "factor": 0.1, "min_delta": 1e9}
    cutting = callbacks.ReduceLROnPlateau(**plateau)
    board = callbacks.TensorBoard(str(tmp_path / "logs"))
    every = [halving, cutting, board, *saving, Log()]
    fit(model, epochs=3, validation_data=(X, Y), callbacks=every)
    # Halved by the first; cut to a tenth by the second from the second epoch on.
    np.testing.assert_allclose(
        [lr for lr, _ in seen], [0.025, 0.00125, 0.0000625], rtol=1e-5
    )
    assert [scale for _, scale in seen] == [16.0, 32.0, 128.0]
    assert list(tmp_path.glob("w*"))
    assert list((tmp_path / "logs").rglob("events*"))


@pytest.mark.parametrize("style", STYLES)
def test_custom_train_step(family, style):
    class Model(KERASES[family].Sequential):
        def train_step(self, data):
            x, y = data

            def loss():
                return tf.reduce_mean((self(x, training=True) - y) ** 2)

            STYLES[style](self.optimizer, loss, self.trainable_variables)
            return {"loss": tf.constant(0.0)}

    results = []
    for scale, eager in ((1.0, True), (8.0, False)):
        KERASES[family].utils.set_random_seed(1)
        model = Model([KERASES[family].layers.Dense(1)])
        model.build((None, 3))
        optimizer = make_optimizer(family, scale=scale)
        model.compile(optimizer, loss="mse", jit_compile=False, run_eagerly=eager)
        fit(model)
        results.append(model.get_weights())
    # Eight steps, growing every third: 4 times the start.
    check_state(optimizer, scale=32.0, count=2, iterations=8)
    for one, other in zip(*results):
        np.testing.assert_allclose(one, other, rtol=1e-6)


# --- Keras 2.


def test_averages_of_keras_2_are_finalized_at_the_end_of_fit():
    model = make_model("new")
    optimizer = make_optimizer("new", use_ema=True, ema_momentum=0.5)
    model.compile(optimizer, loss="mse")
    fit(model, epochs=1)
    averages = optimizer.inner_optimizer._model_variables_moving_average
    for variable, average in zip(model.trainable_variables, averages):
        np.testing.assert_array_equal(numpy(variable), numpy(average))


# --- Keras 3.

MODES = {
    "traced": {"jit_compile": False},
    "jit": {"jit_compile": True},
    "eager": {"run_eagerly": True},
    "default": {},
}


@pytest.mark.parametrize("mode", MODES)
@needs_keras3
def test_fit_skips_bad_batches_and_moves_the_scale(mode):
    model = make_model()
    optimizer = make_optimizer()
    model.compile(optimizer, loss="mse", **MODES[mode])
    fit(model, with_nan(9), epochs=1)  # in the second of four batches
    check_state(optimizer, scale=4.0, count=2, iterations=4)
    assert all(np.isfinite(w).all() for w in model.get_weights())


@needs_keras3
def test_gradient_accumulation_counts_bad_micro_steps_out():
    """Two good micro-steps make an update, with any number of bad ones between."""
    x = tf.Variable([1.0, 2.0], name="x")
    optimizer = make_optimizer(gradient_accumulation_steps=2)
    step = tf.function(
        lambda g: optimizer.apply_gradients([(g, x)]) is None, jit_compile=False
    )
    rows = []
    for g in (1.0, np.nan, np.nan, 3.0, 1.0, np.nan, 1.0):
        step(tf.constant([g, g]))
        rows.append(float(x[0]))
    np.testing.assert_allclose(rows, [1.0, 1.0, 1.0, 0.9, 0.9, 0.9, 0.85], rtol=1e-6)
    # Keras 3.0 counts the micro-steps themselves.
    assert numpy(optimizer.iterations) in (2, 4)
    assert float(optimizer.loss_scale) == 1.0
