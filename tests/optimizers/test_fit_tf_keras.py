"""tf_keras's `compile` and `fit` with its legacy and its newer optimizers."""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.contract.setting import check_state
from tests.families import FAMILIES, copies, keras2, numpy

X = np.random.default_rng(0).random((32, 3)).astype("float32")
Y = X.sum(1, keepdims=True)


@pytest.fixture(params=["legacy", "new"])
def family(request):
    return request.param


@pytest.fixture(autouse=True)
def float32_policy():
    yield
    keras2.mixed_precision.set_global_policy("float32")


def make_model():
    keras2.utils.set_random_seed(1)
    layers = keras2.layers
    return keras2.Sequential(
        [
            layers.Dense(4, activation="relu", input_shape=(3,)),
            layers.Dense(1, dtype="float32"),
        ]
    )


def make_optimizer(family, name="SGD", scale=8.0, growth=3, **arguments):
    inner = getattr(FAMILIES[family], name)(0.05, **arguments)
    return tf_lso.LossScaleOptimizer(
        inner, initial_scale=scale, dynamic_growth_steps=growth
    )


def fit(model, x=X, epochs=2, **arguments):
    return model.fit(
        x, Y, epochs=epochs, batch_size=8, shuffle=False, verbose=0, **arguments
    )


@pytest.mark.parametrize("mode", [{}, {"run_eagerly": True}], ids=["traced", "eager"])
def test_fit_equals_tf_kerass_own_wrapper(family, mode):
    x = X.copy()
    x[9] = np.nan
    weights, scales = [], []
    for wrapper in (tf_lso, keras2.mixed_precision):
        model = make_model()
        optimizer = wrapper.LossScaleOptimizer(
            FAMILIES[family].SGD(0.05, momentum=0.9),
            initial_scale=8.0,
            dynamic_growth_steps=3,
        )
        model.compile(optimizer, loss="mse", **mode)
        fit(model, x)
        weights.append(model.get_weights())
        scales.append((float(optimizer.loss_scale), int(optimizer.dynamic_counter)))
    assert scales[0] == scales[1]
    for ours, theirs in zip(*weights):
        np.testing.assert_array_equal(ours, theirs)


def test_compile_under_mixed_float16_does_not_wrap_again(family):
    keras2.mixed_precision.set_global_policy("mixed_float16")
    model = make_model()
    optimizer = make_optimizer(family, scale=2.0**10)
    model.compile(optimizer, loss="mse")
    assert model.optimizer is optimizer
    history = fit(model, epochs=8)
    assert history.history["loss"][-1] < history.history["loss"][0]


def test_fit_under_mirrored_with_a_bad_last_replica(family, mirrored2):
    x = X.copy()
    x[13] = np.nan
    with mirrored2.scope():
        model = make_model()
        optimizer = make_optimizer(family, momentum=0.9)
        model.compile(optimizer, loss="mse")
    fit(model, x, epochs=1)
    check_state(optimizer, scale=4.0, count=2, iterations=4)
    for variable in model.trainable_variables:
        first, second = copies(variable)
        np.testing.assert_array_equal(first, second)
        assert np.isfinite(first).all()


def test_callbacks(family, tmp_path):
    model = make_model()
    optimizer = make_optimizer(family)
    model.compile(optimizer, loss="mse")
    seen = []

    class Log(keras2.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            rate = keras2.backend.get_value(optimizer.lr)
            seen.append((float(rate), float(optimizer.loss_scale)))

    fit(
        model,
        epochs=3,
        validation_data=(X, Y),
        callbacks=[
            keras2.callbacks.LearningRateScheduler(lambda epoch, lr: lr * 0.5),
            keras2.callbacks.ReduceLROnPlateau(
                monitor="loss", patience=1, factor=0.1, min_delta=1e9
            ),
            keras2.callbacks.TensorBoard(str(tmp_path / "logs")),
            keras2.callbacks.ModelCheckpoint(
                str(tmp_path / "weights"), save_weights_only=True
            ),
            Log(),
        ],
    )
    np.testing.assert_allclose(
        [lr for lr, _ in seen], [0.025, 0.00125, 0.0000625], rtol=1e-5
    )
    assert [scale for _, scale in seen] == [16.0, 32.0, 128.0]
    assert list(tmp_path.glob("weights*"))
    assert list((tmp_path / "logs").rglob("events*"))


@pytest.mark.parametrize("style", ["legacy", "keras3"])
def test_custom_train_step(family, style):
    class Model(keras2.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras2.layers.Dense(1)

        def call(self, x):
            return self.dense(x)

        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((self(x, training=True) - y) ** 2)
                scale = (
                    self.optimizer.get_scaled_loss
                    if style == "legacy"
                    else self.optimizer.scale_loss
                )
                scaled = scale(loss)
            variables = self.trainable_variables
            gradients = tape.gradient(scaled, variables)
            if style == "legacy":
                gradients = self.optimizer.get_unscaled_gradients(gradients)
            self.optimizer.apply_gradients(zip(gradients, variables))
            return {"loss": loss}

    weights = []
    for scale in (8.0, 1.0):
        keras2.utils.set_random_seed(1)
        model = Model()
        optimizer = make_optimizer(family, scale=scale)
        model.compile(optimizer, loss="mse")
        fit(model)
        weights.append([numpy(v) for v in model.trainable_variables])
    check_state(optimizer, scale=4.0, count=2, iterations=8)
    for one, other in zip(*weights):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_ema_is_finalized_at_the_end_of_fit():
    model = make_model()
    optimizer = make_optimizer("new", use_ema=True, ema_momentum=0.5)
    model.compile(optimizer, loss="mse")
    fit(model, epochs=1)
    averages = optimizer.inner_optimizer._model_variables_moving_average
    for variable, average in zip(model.trainable_variables, averages):
        np.testing.assert_array_equal(numpy(variable), numpy(average))
