"""Optimizers as Horovod's `DistributedOptimizer` makes them. Horovod itself has not run."""

import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, keras2, needs_keras3


def distributed(optimizer):
    """Return an optimizer whose class sums the gradients of all processes.

    Horovod makes such a class at run time. Here the sum is that of two processes with equal
    gradients.
    """

    def compute_gradients(self, *args, **kwargs):
        pairs = super(cls, self)._compute_gradients(*args, **kwargs)
        return [(2.0 * gradient, variable) for gradient, variable in pairs]

    def aggregate_gradients(self, grads_and_vars):
        return super(cls, self)._aggregate_gradients(grads_and_vars)

    def construct(self, **kwargs):
        super(cls, self).__init__(**kwargs)

    members = {
        "__init__": construct,
        "_HAS_AGGREGATE_GRAD": True,
        "_compute_gradients": compute_gradients,
        "_aggregate_gradients": aggregate_gradients,
    }
    cls = type(type(optimizer).__name__, (type(optimizer),), members)
    return cls.from_config(optimizer.get_config())


ORDERS = {
    "inside": lambda sgd: tf_lso.LossScaleOptimizer(distributed(sgd), initial_scale=8),
    "outside": lambda sgd: distributed(tf_lso.LossScaleOptimizer(sgd, initial_scale=8)),
}


@needs_keras3
@pytest.mark.parametrize("order", ORDERS)
def test_keras_3_would_not_sum_so_it_is_refused(order):
    x = tf.Variable(1.0)
    with pytest.raises(TypeError, match=r"made by Horovod's.*--like 2\.4"):
        optimizer = ORDERS[order](FAMILIES["keras3"].SGD(0.25))
        optimizer.apply_gradients([(tf.constant(8.0), x)])


@pytest.mark.parametrize("order", ORDERS)
def test_a_legacy_optimizer_sums_once_in_fit(order):
    layers = keras2.layers
    dense = layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    model = keras2.Sequential([layers.InputLayer((1,)), dense])
    model.compile(ORDERS[order](FAMILIES["legacy"].SGD(0.25)), "mse")
    for target in (1.0, float("inf")):
        model.fit(tf.ones([1, 1]), tf.fill([1, 1], target), verbose=0)
    # The gradient of the first step is -2, and that of two processes is -4.
    assert float(dense.kernel[0, 0]) == 1.0
    assert float(model.optimizer.loss_scale) == 4.0
