"""`compile` and `fit` of each Keras: callbacks, and a custom `train_step`.

The contract tests `fit` on replicas.
"""

import numpy as np
import pytest
import tensorflow as tf

from tests.contract.setting import check_state
from tests.families import (
    KERASES,
    STYLES,
    keras2,
    needs_keras3,
    numpy,
    wrapped,
)

X = np.random.default_rng(0).random((32, 3)).astype("float32")
Y = X.sum(1, keepdims=True)


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


def test_callbacks_of_keras_work_with_a_loss_scale(family, tmp_path):
    callbacks = KERASES[family].callbacks
    model = make_model(family)
    averages = {"use_ema": True, "ema_momentum": 0.9} if family == "keras3" else {}
    optimizer = make_optimizer(family, **averages)
    model.compile(optimizer, loss="mse", run_eagerly=True)
    learning_rates, scales = [], []

    class Log(callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            learning_rates.append(float(keras2.backend.get_value(optimizer.lr)))
            scales.append(float(optimizer.loss_scale))

    if family == "keras3":
        saving = [
            callbacks.SwapEMAWeights(swap_on_epoch=True),
            callbacks.ModelCheckpoint(str(tmp_path / "w.keras")),
        ]
    else:
        path = str(tmp_path / "w")
        saving = [callbacks.ModelCheckpoint(path, save_weights_only=True)]
    halve = callbacks.LearningRateScheduler(lambda epoch, lr: lr * 0.5)
    # No decrease of the loss reaches `min_delta`, so each epoch but the first is a plateau.
    cut_to_a_tenth = callbacks.ReduceLROnPlateau(
        monitor="loss", patience=1, factor=0.1, min_delta=1e9
    )
    tensorboard = callbacks.TensorBoard(str(tmp_path / "logs"))
    fit(
        model,
        epochs=3,
        validation_data=(X, Y),
        callbacks=[halve, cut_to_a_tenth, tensorboard, *saving, Log()],
    )
    np.testing.assert_allclose(learning_rates, [0.025, 0.00125, 0.0000625], rtol=1e-5)
    # Four steps an epoch. The scale, 8, doubles every three steps.
    assert scales == [16.0, 32.0, 128.0]
    assert list(tmp_path.glob("w*"))
    assert list((tmp_path / "logs").rglob("events*"))


@pytest.mark.parametrize("style", STYLES)
def test_a_custom_train_step_gives_the_same_weights_with_any_scale(family, style):
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
    # The scale, 8, doubles every three steps, so twice in eight steps.
    check_state(optimizer, scale=32.0, count=2, iterations=8)
    for one, other in zip(*results):
        np.testing.assert_allclose(one, other, rtol=1e-6)


# --- Keras 2.


def test_fit_of_keras_2_assigns_the_averages_at_its_end():
    model = make_model("new")
    optimizer = make_optimizer("new", use_ema=True, ema_momentum=0.5)
    model.compile(optimizer, loss="mse")
    fit(model, epochs=1)
    averages = optimizer.inner_optimizer._model_variables_moving_average
    for variable, average in zip(model.trainable_variables, averages):
        np.testing.assert_array_equal(numpy(variable), numpy(average))


# --- Keras 3.

MODES = {
    "jit": {"jit_compile": True},
    "eager": {"run_eagerly": True},
}


@pytest.mark.parametrize("mode", MODES)
@needs_keras3
def test_fit_skips_a_batch_with_nan_and_changes_the_scale(mode):
    model = make_model()
    optimizer = make_optimizer()
    model.compile(optimizer, loss="mse", **MODES[mode])
    x = X.copy()
    x[9] = np.nan  # in the second of four batches
    fit(model, x, epochs=1)
    check_state(optimizer, scale=4.0, count=2, iterations=4)
    assert all(np.isfinite(w).all() for w in model.get_weights())


@needs_keras3
def test_skipped_micro_steps_do_not_count_for_gradient_accumulation():
    """Two finite micro-steps make an update, with any number of skipped ones between."""
    x = tf.Variable([1.0, 2.0], name="x")
    optimizer = make_optimizer(gradient_accumulation_steps=2)
    step = tf.function(
        lambda g: optimizer.apply_gradients([(g, x)]) is None, jit_compile=False
    )
    values = []
    for g in (1.0, np.nan, np.nan, 3.0, 1.0, np.nan, 1.0):
        step(tf.constant([g, g]))
        values.append(float(x[0]))
    np.testing.assert_allclose(values, [1.0, 1.0, 1.0, 0.9, 0.9, 0.9, 0.85], rtol=1e-6)
    # Keras 3.0 counts micro-steps, and later versions count updates.
    assert numpy(optimizer.iterations) in (2, 4)
    assert float(optimizer.loss_scale) == 1.0
