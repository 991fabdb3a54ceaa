"""Order operations of a graph, which TensorFlow 1 runs only where a result needs them."""

import tensorflow as tf


def known_operations(results):
    """Return the operations of a graph that made `results`; none in eager mode."""
    if tf.executing_eagerly():
        return []
    made = [getattr(result, "op", result) for result in results]
    return [operation for operation in made if isinstance(operation, tf.Operation)]


def after(operations, value):
    """Return `value` as a tensor that, in a graph, exists after `operations` have run."""
    with tf.control_dependencies(known_operations(operations)):
        return tf.constant(value)
