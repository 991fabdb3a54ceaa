"""What depends on where code runs: eagerly or in a graph, in a replica, in a thread."""

import contextlib
import logging
import sys
import threading

import numpy as np
import tensorflow as tf

from tf_lso import log
from tf_lso.frameworks import tf_private


def in_xla():
    """Whether the code being traced is compiled by XLA (`jit_compile=True`)."""
    graph = tf.compat.v1.get_default_graph()
    return not tf.executing_eagerly() and tf_private.in_xla(graph)


def in_plain_function():
    """Whether a function is being traced that XLA does not compile."""
    return tf.inside_function() and not in_xla()


def in_tensorflow_1():
    """Whether the code runs in a graph of TensorFlow 1, around which nothing is eager."""
    with tf.init_scope():
        return not tf.executing_eagerly()


def in_graph_of_tensorflow_1():
    """Whether a graph of TensorFlow 1 is being built, rather than a function."""
    return not (tf.executing_eagerly() or tf.inside_function())


def replica_id():
    """Return the id of the running replica as an int, None outside replica context."""
    context = tf.distribute.get_replica_context()
    number = None if context is None else context.replica_id_in_sync_group
    if tf.is_tensor(number):  # a constant under MirroredStrategy
        number = tf.get_static_value(number)
    return None if number is None else int(number)


def is_first_replica():
    """Return whether this is the first replica of its process, or no replica."""
    number, strategy = replica_id(), tf.distribute.get_strategy()
    if number is None or strategy.num_replicas_in_sync == 1:
        return True
    return number % len(strategy.extended.worker_devices) == 0


class ThreadSwitch(threading.local):
    """Is on inside `with switch.on():` of the same thread. Such blocks can be nested."""

    is_on = False

    @contextlib.contextmanager
    def on(self):
        """Switch on for the block, then back to the state before."""
        before, self.is_on = self.is_on, True
        try:
            yield
        finally:
            self.is_on = before


def require_eager(caller):
    """Raise RuntimeError in a `tf.function` or a graph, where there are no numbers."""
    if not tf.executing_eagerly():
        raise RuntimeError(
            f"{caller}() must be called in eager code: it reads numbers. Call it after "
            "the tf.function that takes the step has returned."
        )


def local_variable(initial_value, name, dtype, shape=None):
    """Make a variable that is the same on every replica and is never aggregated."""
    # The value is a constant, which no function being traced must hold back. With
    # lifting, `tf.function` would trace a second time.
    kwargs = {"trainable": False, "experimental_enable_variable_lifting": False}
    with tf.init_scope():
        return tf.Variable(initial_value, name=name, dtype=dtype, shape=shape, **kwargs)


def unsaved_variable(initial_value, name, shape=None):
    """Make such a variable of int64, and keep it out of all checkpoints."""
    variable = local_variable(initial_value, name, tf.int64, shape)
    if in_tensorflow_1():
        # The `tf.compat.v1.train.Saver` takes all variables of this list, and fails if
        # an old checkpoint lacks one.
        with tf.init_scope():
            kept = tf.compat.v1.GraphKeys.GLOBAL_VARIABLES
            saved = tf.compat.v1.get_collection_ref(kept)
            saved[:] = [v for v in saved if v is not variable]
    return variable


def read_or_zero(variable):
    """Return the value of an `unsaved_variable`, 0 if it was never initialized."""
    if not in_tensorflow_1():
        return tf.convert_to_tensor(variable)
    # A graph of TensorFlow 1 initializes only the variables in its lists.
    return tf.cond(
        variable.is_initialized(),
        lambda: tf.convert_to_tensor(variable),
        lambda: tf.zeros(variable.shape, variable.dtype),
    )


def known_operations(results):
    """Return the operations of a graph that made `results`; none in eager mode."""
    if tf.executing_eagerly():
        return []
    made = [getattr(result, "op", result) for result in results]
    return [operation for operation in made if isinstance(operation, tf.Operation)]


def after(operations, value):
    """Return `value` as a tensor that, in a graph, exists after `operations` have run."""
    # A graph of TensorFlow 1 runs only what a result depends on.
    with tf.control_dependencies(known_operations(operations)):
        return tf.constant(value)


def warn(condition, text, *values):
    """Warn when a step runs for which `condition` holds, with a scalar for each `{}`."""
    # Eager steps log it. Traced ones print it to standard error, unless TensorFlow's
    # logger hides warnings when they are traced; XLA cannot.
    if tf.executing_eagerly():
        if condition:
            values = [tf.compat.as_str_any(np.asarray(value)[()]) for value in values]
            log.logger().warning(text.format(*values))
    elif not in_xla() and log.logger().isEnabledFor(logging.WARNING):
        # `tf.strings.format` would put strings into quotes.
        told = [
            v if v.dtype == tf.string else tf.strings.format("{}", v) for v in values
        ]
        first, *parts = f"{text}\n".split("{}")
        said = tf.strings.join([first, *(x for pair in zip(told, parts) for x in pair)])
        # Printing "" prints nothing. A conditional would take more memory per trace.
        tf.print(tf.where(condition, said, ""), output_stream=sys.stderr, end="")
