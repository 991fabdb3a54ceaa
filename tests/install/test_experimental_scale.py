"""With `like` 2.4 and later, `loss_scale` of the experimental optimizer is a tensor.

In TensorFlow 2.0-2.3 it was a `LossScale` object.
"""

import json
import math

import pytest
import tensorflow as tf

from tests.families import FAMILIES
from tf_lso import DynamicLossScale, LossScale
from tf_lso.install import earlier_keras2
from tf_lso.install.ledger import Ledger
from tf_lso.keras.mixed_precision.experimental import LossScaleOptimizer

K = tf.keras.backend
OF_2_4 = {"inner_optimizer", "dynamic", "initial_scale", "dynamic_growth_steps"}


@pytest.fixture(params=FAMILIES)
def make(request):
    """Return a function that wraps an SGD optimizer in the way of TensorFlow 2.4."""
    ledger = Ledger()
    earlier_keras2.show_scale_as_tensor(tf.keras, ledger)
    yield lambda scale: LossScaleOptimizer(FAMILIES[request.param].SGD(0.5), scale)
    ledger.undo()


def test_values_are_logged_and_not_the_object(make):
    optimizer, logged = make(DynamicLossScale(16.0, 2)), []
    x = tf.Variable(1.0)
    for gradient in (1.0, float("inf"), float("nan")):
        logged.append(K.get_value(optimizer.loss_scale).item())
        optimizer.get_unscaled_gradients([])
        optimizer.apply_gradients([(tf.constant(gradient), x)])
    assert json.loads(json.dumps(logged)) == [16, 16, 8]
    assert f"{optimizer.loss_scale}" == f"{tf.constant(4.0)}"
    assert tf.stack([optimizer.loss_scale, 1.0]).numpy().tolist() == [4, 1]


def test_the_scale_is_formatted_like_a_number(make):
    scale = make(1024).loss_scale
    old_format = "%g|%.1f|%d"
    assert old_format % (scale, scale, scale) == "1024|1024.0|1024"
    assert (math.log2(scale), int(scale), float(scale * 2 + 1)) == (10, 1024, 2049)
    assert bool(scale > 1.0)


def test_a_function_and_a_graph_of_tensorflow_1_read_the_scale(make):
    optimizer = make(DynamicLossScale(16.0))
    assert float(tf.function(lambda: optimizer.loss_scale * 2)()) == 32
    if not hasattr(optimizer.inner_optimizer, "build"):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            fetched = make(8).loss_scale
            assert session.run(fetched) == 8


@pytest.mark.parametrize("scale", [8, "dynamic", DynamicLossScale(16.0, 3)])
def test_configs_have_the_keys_of_2_4_and_make_an_equal_optimizer(make, scale):
    optimizer = make(scale)
    config = optimizer.get_config()
    assert config.keys() - {"name"} == OF_2_4  # only with Keras 3 there is a name
    copy = LossScaleOptimizer.from_config(config)
    assert type(copy.loss_scale_state) is type(optimizer.loss_scale_state)
    assert copy.get_config() == config


class Mine(LossScale):
    def __call__(self):
        return 32.0

    def update(self, grads):
        return None, True

    def get_config(self):
        return {}


def test_the_config_of_a_users_scale_stays_as_it_is(make):
    optimizer = make(Mine())
    assert float(optimizer.loss_scale) == 32
    assert optimizer.get_config()["loss_scale"]["class_name"] == "Mine"


def test_after_uninstall_it_is_an_object():
    ledger = Ledger()
    earlier_keras2.show_scale_as_tensor(tf.keras, ledger)
    ledger.undo()
    optimizer = LossScaleOptimizer(tf.keras.optimizers.SGD(), 8)
    assert optimizer.loss_scale() == 8
    assert optimizer.get_config().keys() >= {"optimizer", "loss_scale"}
