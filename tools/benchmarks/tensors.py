"""The variables and inputs of a workload, and the gradients that a step computes."""

import numpy as np
import tensorflow as tf

from tools.benchmarks import replicas

_BATCH = 64


def variables_of(workload, strategy):
    """New variables; all candidates of a process share them, each with own slots."""
    with replicas.scope(strategy):
        return [
            # Small and not zero: a model of zeros would have gradients of zero.
            tf.Variable(_uniform(gradient.shape, number, limit=0.1), name=f"v{number}")
            for number, gradient in enumerate(workload.gradients)
        ]


def inputs_of(workload, strategy):
    """The tensors that a step takes, other ones on each replica, all finite."""
    if workload.trains:
        first, last = workload.gradients[0].shape, workload.gradients[-1].shape
        inputs = [(_BATCH, first[0]), (_BATCH, *last)]
        return [_fed(strategy, shape, number) for number, shape in enumerate(inputs)]
    tensors = []
    for number, gradient in enumerate(workload.gradients):
        rows = gradient.shape[0] if gradient.rows is None else gradient.rows
        tensors.append(_fed(strategy, (rows, *gradient.shape[1:]), number))
        if gradient.rows is not None:
            step = gradient.shape[0] // rows
            tensors.append(
                replicas.feed(strategy, lambda _, r=rows, s=step: tf.range(r) * s)
            )
    return tensors


def gradients_of(workload, scale_loss, inputs, variables):
    """The scaled gradients of one step on one replica.

    Args:
      workload: a Workload.
      scale_loss: what the optimizer does to a loss. Without a tape it is called all
        the same, since it tells the optimizer that the gradients are scaled.
      inputs: tensors, as from `inputs_of`.
      variables: as from `variables_of`.
    """
    if workload.trains:
        return _trained(scale_loss, inputs, variables)
    scale_loss(tf.constant(1.0))
    tensors, gradients = iter(inputs), []
    for gradient in workload.gradients:
        values = next(tensors)
        if gradient.rows is not None:
            shape = tf.constant(gradient.shape, tf.int32)
            values = tf.IndexedSlices(values, next(tensors), dense_shape=shape)
        gradients.append(values)
    return gradients


def _trained(scale_loss, inputs, variables):
    """The gradients of a dense model with ReLU in between, and a squared error."""
    x, y = inputs
    with tf.GradientTape() as tape:
        for number in range(0, len(variables), 2):
            x = tf.matmul(x if number == 0 else tf.nn.relu(x), variables[number])
            x += variables[number + 1]
        scaled = scale_loss(tf.reduce_mean(tf.math.squared_difference(x, y)))
    return tape.gradient(scaled, variables)


def _fed(strategy, shape, number):
    return replicas.feed(strategy, lambda replica: _uniform(shape, number, replica))


def _uniform(shape, number, replica=0, limit=1.0):
    """Numbers between -limit and limit, made in place by NumPy.

    TensorFlow's allocator would keep what its own operations need on the way, and a
    step that takes it again would not show in the peak memory.
    """
    numbers = np.random.default_rng((number, replica)).random(shape, np.float32)
    numbers -= 0.5
    numbers *= 2 * limit
    return tf.convert_to_tensor(numbers)
