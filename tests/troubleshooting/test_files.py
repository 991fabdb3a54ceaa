"""The entries of "Files and checkpoints"."""

import gc

import pytest
import tensorflow as tf

import tf_lso
from tests import preloaded
from tests.families import OLD_KERAS3, keras, keras2, needs_keras3
from tests.generation import NO_CHECKPOINT, limit
from tests.troubleshooting.models import (
    legacy_step,
    new_model,
    old_checkpoint,
    old_model,
)
from tests.troubleshooting.page import assert_explained, raises

tf_keras = keras2
ALWAYS_COMPILES = limit(
    "`load_model` of this Keras ignores `compile=False` for .h5 files", "3.0"
)


@needs_keras3
@ALWAYS_COMPILES
@pytest.mark.parametrize(
    ("policy", "arguments"), [("mixed_float16", {"compile": False}), ("float32", {})]
)
def test_quantization_mode(policy, arguments):
    old_model(policy).save("model.h5")
    with raises("quantization-mode"):
        keras.models.load_model("model.h5", **arguments)


@needs_keras3
def test_class_policy():
    config = {"class_name": "Policy", "config": {"name": "mixed_float16"}}
    with raises("quantization-mode"):
        keras.saving.deserialize_keras_object(config)


READS_A_CONFIG = """
import keras
keras.saving.deserialize_keras_object({
    "module": "tf_lso.optimizers.loss_scale_optimizer",
    "class_name": "LossScaleOptimizer",
    "config": {},
    "registered_name": "tf_lso>LossScaleOptimizer",
})
"""


@needs_keras3
@pytest.mark.skipif(OLD_KERAS3, reason="Keras 3.0 imports the module in a config")
def test_class_optimizer():
    done = preloaded.run(["-c", READS_A_CONFIG])
    assert_explained("class-optimizer", done.stderr)


def test_optimizer_v3():
    config = {
        "class_name": "LossScaleOptimizerV3",
        "config": old_model(optimizer="new").optimizer.get_config(),
    }
    with raises("quantization-mode"):
        tf_keras.utils.legacy.deserialize_keras_object(
            config, printable_module_name="optimizer"
        )


@needs_keras3
def test_saved_model():
    old_model().save("model")
    with raises("saved-model"):
        keras.models.load_model("model")


@pytest.fixture
def model():
    return new_model()


@pytest.fixture
def opt():
    return tf_lso.LossScaleOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))


@needs_keras3
@NO_CHECKPOINT
def test_partial_restore(shown):
    path = old_checkpoint()
    model = new_model()
    opt = tf_lso.LossScaleOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))
    tf.train.Checkpoint(model=model, optimizer=opt).restore(path)
    del model, opt
    gc.collect()
    assert_explained("part", shown())


@needs_keras3
@NO_CHECKPOINT
def test_part(model, opt):
    tf_lso.install()
    path = old_checkpoint()
    with raises("part"):
        tf.train.Checkpoint(model=model, optimizer=opt).restore(path)


@needs_keras3
@NO_CHECKPOINT
def test_restore_before_build():
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(2)

        def call(self, inputs):
            return self.dense(inputs)

    x = tf.ones((4, 3))

    def step(model, opt):
        with tf.GradientTape() as tape:
            loss = opt.get_scaled_loss(tf.reduce_mean(model(x) ** 2))
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients = opt.get_unscaled_gradients(gradients)
        opt.apply_gradients(zip(gradients, model.trainable_variables))

    def made():
        return Model(), tf_lso.LossScaleOptimizer(keras.optimizers.Adam(0.1))

    model, opt = made()
    step(model, opt)
    path = tf.train.Checkpoint(model=model, optimizer=opt).save("ckpt")

    model, opt = made()
    tf.train.Checkpoint(model=model, optimizer=opt).restore(path)
    with raises("whose-state"):
        step(model, opt)


def test_kinds():
    path = old_checkpoint()
    model = old_model(optimizer="new")
    opt = tf_lso.LossScaleOptimizer(tf_keras.optimizers.SGD(0.1, momentum=0.9))
    opt.build(model.trainable_variables)
    with raises("part"):
        tf.train.Checkpoint(model=model, optimizer=opt).restore(path)


def test_set_weights(variables):
    first = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1, momentum=0.9))
    legacy_step(first, variables)
    opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.Adam(0.1))
    opt.build(variables)
    with raises("whose-state"):
        opt.set_weights(first.get_weights())


def test_not_built():
    path = old_checkpoint()
    model = new_model(built=False)
    with raises("not-built"):
        tf_lso.checkpoints.restore(path, model=model)


def test_no_scale_in_file(shown):
    tf_keras.mixed_precision.set_global_policy("mixed_float16")
    old_model("mixed_float16", optimizer="new").save("before.h5")

    tf_lso.install()
    tf_keras.models.load_model("before.h5")
    assert_explained("no-scale-in-file", shown())


def test_whose_state():
    model = new_model()
    opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.Adam(0.1))
    opt.build(model.trainable_variables)
    path = tf.train.Checkpoint(model=model, optimizer=opt).save("ckpt")

    for optimizer in (
        tf.keras.optimizers.Adamax(0.1),
        tf.keras.optimizers.Adam(0.1, amsgrad=True),
    ):
        opt = tf_lso.LossScaleOptimizer(optimizer)
        opt.build(model.trainable_variables)
        with raises("whose-state"):
            tf.train.Checkpoint(model=model, optimizer=opt).restore(path)
