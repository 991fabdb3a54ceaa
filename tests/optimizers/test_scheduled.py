"""The learning rate of a Keras 3 optimizer with a schedule is both rate and schedule."""

import contextlib
import copy
import operator
import pickle

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import copies, keras

Schedule = keras.optimizers.schedules.LearningRateSchedule


@keras.saving.register_keras_serializable("tests")
class Noam(Schedule):
    """As the transformer tutorials write it: it takes roots of a float step."""

    def __init__(self, width=4):
        self.width = width

    def __call__(self, step):
        step = tf.cast(step, tf.float32) + 1.0
        return tf.math.rsqrt(float(self.width)) * tf.math.rsqrt(step)

    def get_config(self):
        return {"width": self.width}


KINDS = {
    "wrapper": tf_lso.LossScaleOptimizer,
    "wrapper, installed": tf_lso.LossScaleOptimizer,
    "bare, installed": lambda optimizer: optimizer,
    "Keras's wrapper, installed": keras.optimizers.LossScaleOptimizer,
}


@pytest.fixture(params=KINDS)
def make(request):
    installed = request.param.endswith("installed")
    with tf_lso.install() if installed else contextlib.nullcontext():
        yield lambda rate: KINDS[request.param](keras.optimizers.SGD(rate))


@pytest.fixture
def optimizer(make):
    optimizer = make(keras.optimizers.schedules.PolynomialDecay(1.0, 4, 0.0))
    optimizer.build([keras.Variable(1.0)])
    optimizer.iterations.assign(1)
    return optimizer


@pytest.fixture(params=["learning_rate", "lr"])
def read(request, optimizer):
    """A function that gives the rate of an optimizer, by either name."""
    if not hasattr(optimizer, request.param):
        pytest.skip("Keras's own wrapper has no lr")
    return operator.attrgetter(request.param)


def test_the_schedule_is_one_of_its_class_that_is_called_with_a_step(optimizer, read):
    rate = read(optimizer)
    for step in (2, tf.constant(2), tf.constant(2.0), np.int64(2)):
        assert float(rate(step)) == 0.5
    assert float(tf.function(lambda step: rate(step))(tf.constant(3.0))) == 0.25
    assert isinstance(rate, Schedule) and callable(rate)
    assert isinstance(rate, keras.optimizers.schedules.PolynomialDecay)
    assert not isinstance(rate, keras.optimizers.schedules.CosineDecay)
    assert (rate.initial_learning_rate, rate.decay_steps) == (1.0, 4)
    assert rate.get_config()["end_learning_rate"] == 0.0
    for copied in (copy.deepcopy(rate), pickle.loads(pickle.dumps(rate))):
        assert float(copied(2)) == 0.5


def test_the_schedule_goes_into_another_optimizer(optimizer, make, read):
    other = make(read(optimizer))
    assert float(read(other)) == 1.0
    other.learning_rate = read(optimizer)
    assert float(read(other)) == 1.0
    assert float(read(other)(2)) == 0.5
    assert isinstance(other.get_config(), dict)


def test_the_rate_is_a_number_and_a_tensor(optimizer, read):
    rate = read(optimizer)
    assert float(rate) == rate.numpy() == np.asarray(rate) == 0.75
    assert keras.ops.convert_to_numpy(rate) == 0.75
    assert f"{rate:.3f} {rate}" == "0.750 0.75"
    assert "0.75" in repr(rate) and "0.75" in str(rate)
    assert rate == 0.75 and rate != 1.0 and rate < 1 and bool(rate)
    assert tf.keras.backend.get_value(rate) == 0.75
    assert (rate.dtype, rate.shape) == (tf.float32, [])
    assert float(tf.convert_to_tensor(rate)) == 0.75
    assert float(tf.cast(rate, tf.float16)) == 0.75
    assert float(keras.ops.cast(rate, "float64")) == 0.75
    assert float(tf.stack([rate, rate])[1]) == 0.75
    assert tf.is_tensor(rate)
    x = tf.constant(2.0)
    for value in (rate * x, x * rate, 2 * rate, rate * 2.0, rate + rate):
        assert float(value) == 1.5
    assert float(-rate) == -0.75 and float(rate / 2) == 0.375
    assert float(np.float32(2.0) * rate) == 1.5
    optimizer.iterations.assign(2)  # it is the one of when it was asked for
    assert (float(rate), float(read(optimizer))) == (0.75, 0.5)


def test_the_rate_works_in_a_function_that_goes_on(optimizer, read, capfd):
    @tf.function
    def doubled():
        rate = read(optimizer)
        tf.print("rate", rate)
        return rate * 2.0 + tf.cast(rate, tf.float32)

    assert float(doubled()) == 2.25
    optimizer.iterations.assign(2)
    assert float(doubled()) == 1.5
    assert "rate 0.5" in capfd.readouterr().err


class ReturningTheRate(keras.Sequential):
    """A model whose step returns the rate, as custom loops of Keras 3 do."""

    def train_step(self, data):
        return super().train_step(data) | {"rate": self.optimizer.learning_rate}


@pytest.mark.parametrize("mode", ["eager", "function", "xla"])
def test_keras_goes_on_by_the_rate_which_a_step_may_return(make, mode, tmp_path):
    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
    model = ReturningTheRate([keras.Input([1]), dense])
    modes = {"run_eagerly": mode == "eager", "jit_compile": mode == "xla"}
    model.compile(make(Noam()), "mse", **modes)
    logged = []

    class Log(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            logged.append(float(self.model.optimizer.learning_rate))

    callbacks = [Log(), keras.callbacks.TensorBoard(str(tmp_path))]
    data = np.ones([2, 1], "float32"), np.zeros([2, 1], "float32")
    seen = model.fit(*data, epochs=2, verbose=2, callbacks=callbacks).history
    for rates in (logged, seen["rate"]):
        np.testing.assert_allclose(rates, [0.5 / 2**0.5, 0.5 / 3**0.5], 1e-6)
    # The gradient of x**2 is 2x: 1 - 0.5 * 2 = 0.
    np.testing.assert_allclose(model.get_weights()[0], [[0.0]], atol=1e-6)
    assert model.optimizer.get_config()


def test_a_rate_without_a_schedule_is_what_it_was(make):
    optimizer = make(0.5)
    assert isinstance(optimizer.learning_rate, keras.Variable)
    optimizer.learning_rate = 0.25
    assert float(optimizer.learning_rate.numpy()) == 0.25


def test_a_scheduled_rate_cannot_be_set_to_a_number(make, optimizer):
    with pytest.raises(TypeError, match="LearningRateSchedule"):
        optimizer.learning_rate = 0.5


def test_under_a_strategy(make, mirrored2):
    with mirrored2.scope():
        x, optimizer = keras.Variable(1.0), make(Noam())
        optimizer.build([x])

    def step():
        scale = optimizer.scale_loss(tf.constant(1.0))
        optimizer.apply_gradients([(scale * 0.5, x)])
        return optimizer.learning_rate * 1.0

    tf.function(lambda: mirrored2.run(step))()
    assert np.isclose(copies(x), 0.5).all()
