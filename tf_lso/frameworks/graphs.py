"""Helpers that depend on where code runs: in eager mode, a graph, a replica or a thread."""

import contextlib
import logging
import sys
import threading

import numpy as np
import tensorflow as tf

from tf_lso.frameworks import log, tf_private


def in_xla():
    """Return whether XLA compiles the code that is being traced (`jit_compile=True`)."""
    graph = tf.compat.v1.get_default_graph()
    return not tf.executing_eagerly() and tf_private.in_xla(graph)


def in_plain_function():
    """Return whether a function is being traced that XLA does not compile."""
    return tf.inside_function() and not in_xla()


def in_tensorflow_1():
    """Return whether this is a program of TensorFlow 1, which has no eager mode at all."""
    with tf.init_scope():
        return not tf.executing_eagerly()


def in_graph_of_tensorflow_1():
    """Return whether a graph of TensorFlow 1 is being built, and not a function."""
    return not (tf.executing_eagerly() or tf.inside_function())


def replica_id():
    """Return the id of the running replica as an int, or None outside replica context."""
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
    """A switch that is on inside `with switch.on():` in the same thread. Blocks may nest."""

    is_on = False

    @contextlib.contextmanager
    def on(self):
        """Turn the switch on for the block. At its end, restore the state from before."""
        before, self.is_on = self.is_on, True
        try:
            yield
        finally:
            self.is_on = before


def require_eager(caller):
    """Raise RuntimeError in a `tf.function` or a graph, where tensors have no values."""
    if not tf.executing_eagerly():
        raise RuntimeError(
            f"{caller}() must be called in eager code, because it reads numbers. Call it "
            "after the tf.function that takes the step has returned."
        )


def local_variable(initial_value, name, dtype, shape=None):
    """Make a variable that all replicas share and that is never aggregated."""
    # In `init_scope` the variable is created outside of a function that is being traced. If it
    # could be lifted, `tf.function` would trace a second time.
    kwargs = {"trainable": False, "experimental_enable_variable_lifting": False}
    with tf.init_scope():
        return tf.Variable(initial_value, name=name, dtype=dtype, shape=shape, **kwargs)


def unsaved_variable(initial_value, name, shape=None):
    """Make a `local_variable` of int64 that no checkpoint contains."""
    variable = local_variable(initial_value, name, tf.int64, shape)
    if in_tensorflow_1():
        # `tf.compat.v1.train.Saver` restores all variables of this collection, and fails if
        # an old checkpoint lacks one of them.
        with tf.init_scope():
            kept = tf.compat.v1.GraphKeys.GLOBAL_VARIABLES
            saved = tf.compat.v1.get_collection_ref(kept)
            saved[:] = [v for v in saved if v is not variable]
    return variable


def read_or_zero(variable):
    """Return the value of an `unsaved_variable`, or 0 if it was never initialized."""
    if not in_tensorflow_1():
        return tf.convert_to_tensor(variable)
    # TensorFlow 1 initializes only the variables in its collections, and `variable` is in none.
    return tf.cond(
        variable.is_initialized(),
        lambda: tf.convert_to_tensor(variable),
        lambda: tf.zeros(variable.shape, variable.dtype),
    )


def known_operations(results):
    """Return a list of the graph operations that made `results`, empty in eager mode."""
    if tf.executing_eagerly():
        return []
    made = [getattr(result, "op", result) for result in results]
    return [operation for operation in made if isinstance(operation, tf.Operation)]


def after(operations, value):
    """Return `value` as a tensor. In a graph it depends on `operations`."""
    # A graph of TensorFlow 1 runs only the operations that a result depends on.
    with tf.control_dependencies(known_operations(operations)):
        return tf.constant(value)


def warn(condition, text, *values):
    """Warn in each step in which `condition` holds. Each `{}` of `text` gets a scalar."""
    # Eager steps log the warning. Traced steps print it to standard error, unless the
    # level of TensorFlow's logger hid warnings during the trace. XLA cannot print.
    if tf.executing_eagerly():
        if condition:
            values = [tf.compat.as_str_any(np.asarray(value)[()]) for value in values]
            log.logger().warning(text.format(*values))
    elif not in_xla() and log.logger().isEnabledFor(logging.WARNING):
        # `tf.strings.format` would put strings into quotes.
        strings = [
            v if v.dtype == tf.string else tf.strings.format("{}", v) for v in values
        ]
        first, *parts = f"{text}\n".split("{}")
        pairs = (string for pair in zip(strings, parts) for string in pair)
        message = tf.strings.join([first, *pairs])
        # To print "" has no effect. A conditional would need more memory in each trace.
        tf.print(tf.where(condition, message, ""), output_stream=sys.stderr, end="")
