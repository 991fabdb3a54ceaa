"""Two entries of "Files and checkpoints", and messages that need no entry."""

import pytest
import tensorflow as tf

import tf_lso
from tests.families import keras, needs_keras3
from tests.generation import NO_CHECKPOINT
from tests.troubleshooting.models import new_model, old_checkpoint, wrapped_sgd
from tests.troubleshooting.page import raises


@NO_CHECKPOINT
def test_build_before_saving():
    model = new_model()
    opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1, momentum=0.9))
    opt.build(model.trainable_variables)
    path = tf.train.Checkpoint(optimizer=opt).save("ckpt")

    opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1, momentum=0.9))
    tf.train.Checkpoint(optimizer=opt).restore(path)
    with raises("not-built"):
        opt.get_weights()


def test_config():
    class Own(tf.keras.optimizers.SGD):
        pass

    inner = {"class_name": "Own", "config": {"learning_rate": 0.5}}
    scale = {"dynamic": True, "initial_scale": 8.0, "dynamic_growth_steps": 5}
    config = {"inner_optimizer": inner, **scale}
    with pytest.raises(ValueError, match=r"Unknown optimizer 'Own'.*custom_objects"):
        tf_lso.LossScaleOptimizer.from_config(config)


@needs_keras3
def test_checkpoint_error():
    path = old_checkpoint()
    model = new_model(names=("one", "two", "three"))
    opt = tf_lso.LossScaleOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))
    with raises("checkpoint-error"):
        tf_lso.checkpoints.restore(path, model=model, optimizer=opt)


def test_type_of_optimizer():
    opt = wrapped_sgd()
    assert type(opt) is not tf_lso.LossScaleOptimizer
    assert isinstance(opt, tf_lso.LossScaleOptimizer)
