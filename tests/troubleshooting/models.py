"""Models for the tests of the page: models that Keras 2 trained, and equal new models."""

import tensorflow as tf

import tf_lso
from tests import families
from tests.families import keras, keras2


def loss_of(variables):
    """Return the loss of a model with one weight. The gradient is twice the weight."""
    return variables[0] ** 2


def legacy_step(opt, variables):
    """Take one step as in TensorFlow 2.4-2.15."""
    families.legacy_step(opt, lambda: loss_of(variables), variables)


def old_model(policy="float32", names=("one", "two"), optimizer="legacy"):
    """Return a model that Keras 2 has trained with a loss scale."""
    layer = keras2.layers.Dense
    model = keras2.Sequential(
        [
            layer(2, input_shape=(2,), name=names[0], dtype=policy),
            layer(2, name=names[1], dtype="float32"),
        ]
    )
    family = keras2.optimizers.legacy if optimizer == "legacy" else keras2.optimizers
    wrapper = keras2.mixed_precision.LossScaleOptimizer
    model.compile(wrapper(family.SGD(0.1, momentum=0.9)), "mse")
    model.fit(tf.ones((4, 2)), tf.ones((4, 2)), verbose=0)
    return model


def old_checkpoint():
    """Return the path of a checkpoint of `old_model()`, in the layout of TensorFlow 2.15."""
    model = old_model()
    return tf.train.Checkpoint(model=model, optimizer=model.optimizer).save("ckpt")


def new_model(names=("one", "two"), built=True):
    """Return an untrained model with the layers of `old_model`, made with `tf.keras`."""
    layers = [keras.layers.Dense(2, name=name) for name in names]
    return keras.Sequential([keras.Input((2,)), *layers] if built else layers)


def one_layer(optimizer, built=True):
    """Return a compiled model with one layer. The layer has the global policy."""
    inputs = [keras.Input((2,))] if built else []
    model = keras.Sequential([*inputs, keras.layers.Dense(1)])
    model.compile(optimizer, "mse")
    return model


def wrapped_sgd(**options):
    """Return an optimizer of tf_lso whose initial scale is 8."""
    sgd = tf.keras.optimizers.SGD(0.5)
    return tf_lso.LossScaleOptimizer(sgd, **{"initial_scale": 8, **options})
