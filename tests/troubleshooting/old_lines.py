"""Lines of Keras 2 programs. Keras 3 refuses these lines, but `--like 2.4` runs them.

`test_old_keras.py` says which entry of the page explains the message of each function.
"""

import warnings

import numpy as np
import tensorflow as tf


def trained():
    """Return a model that `fit` has trained with a callback."""
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    plateau = tf.keras.callbacks.ReduceLROnPlateau(monitor="loss")
    x = tf.ones((4, 2))
    model.fit(x, x, verbose=0, callbacks=[plateau])
    return model


def batches():
    """Yield two batches, as old programs did for `fit_generator`."""
    yield from [(np.ones((4, 2), "float32"), np.ones((4, 2), "float32"))] * 2


class WithSelf(tf.keras.Model):
    """A model that passes `self` to the constructor of its base class."""

    def __init__(self):
        super().__init__(self)
        self.layer = tf.keras.layers.Dense(1)

    def call(self, x):
        return self.layer(x)


def reset_states():
    tf.keras.metrics.Mean().reset_states()


def super_init_self():
    WithSelf()(tf.ones((1, 2)))


def decay_ignored():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tf.keras.optimizers.SGD(0.1, decay=0.01)


def called_rate():
    schedule = tf.keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5)
    tf.keras.optimizers.SGD(schedule).learning_rate(1)


def history_lr():
    return trained().history.history["lr"]


def fit_generator():
    trained().fit_generator(batches(), steps_per_epoch=2, verbose=0)


def batch_input_shape():
    tf.keras.layers.Dense(1, batch_input_shape=(4, 2))


def layers_experimental():
    tf.keras.layers.experimental.preprocessing.Normalization()


def backend_functions():
    model = trained()
    tf.keras.backend.function(model.inputs, model.outputs)([tf.ones((4, 2))])


def name_with_slash():
    tf.keras.layers.Dense(1, name="block/dense")


def output_shape():
    return trained().layers[0].output_shape


def reduction_auto():
    tf.keras.losses.MeanSquaredError(reduction="auto")
