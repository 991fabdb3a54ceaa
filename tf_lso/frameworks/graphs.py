"""Helpers for code that may run in eager mode, a graph, a replica or a thread."""

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


def plain_or_compiled(plain, compiled):
    """Return `compiled()` where XLA compiles the running code, and `plain()` elsewhere.

    A function that was traced outside of XLA may later run inside a compiled function without a
    new trace, and the reverse. So the graph contains both alternatives, and chooses when it
    runs. Both must return tensors of the same dtypes.
    """
    if tf.executing_eagerly():
        return plain()
    # `DeviceIndex` returns the index of the device on which it runs. In XLA it returns 2, the
    # number after the last index, and XLA compiles only the third branch.
    device = tf.raw_ops.DeviceIndex(device_names=["CPU", "GPU"])
    return tf.switch_case(device, [plain, plain, compiled])


def in_tensorflow_1():
    """Return whether the outermost context is a graph, as in a TensorFlow 1 program."""
    with tf.init_scope():
        return not tf.executing_eagerly()


def in_graph_of_tensorflow_1():
    """Return whether code is building a TensorFlow 1 graph outside of any `tf.function`."""
    return not (tf.executing_eagerly() or tf.inside_function())


def replica_id():
    """Return the id of the running replica as an int, or None outside replica context."""
    context = tf.distribute.get_replica_context()
    number = None if context is None else context.replica_id_in_sync_group
    if tf.is_tensor(number):
        # Under MirroredStrategy the id is a constant tensor.
        number = tf.get_static_value(number)
    return None if number is None else int(number)


def is_first_replica():
    """Return whether code runs in the first replica of its process, or in no replica."""
    number, strategy = replica_id(), tf.distribute.get_strategy()
    if number is None or strategy.num_replicas_in_sync == 1:
        return True
    return number % len(strategy.extended.worker_devices) == 0


class ThreadSwitch(threading.local):
    """A switch that each thread can turn on for itself by `with switch.on():`."""

    is_on = False

    @contextlib.contextmanager
    def on(self):
        """Turn the switch on in the block, and restore the previous state afterwards."""
        before, self.is_on = self.is_on, True
        try:
            yield
        finally:
            self.is_on = before


def require_eager(caller):
    """Raise RuntimeError outside of eager mode, because only eager tensors have values."""
    if not tf.executing_eagerly():
        raise RuntimeError(
            f"{caller}() must be called in eager code, because it reads numbers. Call it "
            "after the tf.function that takes the step has returned."
        )


def local_variable(initial_value, name, dtype, shape=None):
    """Create a variable that all replicas share and that is never aggregated."""
    # `init_scope` creates the variable outside of the `tf.function` that is being traced.
    # Without `experimental_enable_variable_lifting=False`, TensorFlow would then trace this
    # `tf.function` a second time.
    kwargs = {"trainable": False, "experimental_enable_variable_lifting": False}
    with tf.init_scope():
        return tf.Variable(initial_value, name=name, dtype=dtype, shape=shape, **kwargs)


def unsaved_variable(initial_value, name, shape=None):
    """Create a `local_variable` of dtype int64 that no checkpoint contains."""
    variable = local_variable(initial_value, name, tf.int64, shape)
    if in_tensorflow_1():
        # Remove `variable` from the collection GLOBAL_VARIABLES, because a
        # `tf.compat.v1.train.Saver` restores the whole collection. The Saver would fail to
        # restore old checkpoints, which do not contain `variable`.
        with tf.init_scope():
            kept = tf.compat.v1.GraphKeys.GLOBAL_VARIABLES
            saved = tf.compat.v1.get_collection_ref(kept)
            saved[:] = [v for v in saved if v is not variable]
    return variable


def read_or_zero(variable):
    """Return the value of an `unsaved_variable`, or 0 if it was never initialized."""
    if not in_tensorflow_1():
        return tf.convert_to_tensor(variable)
    # A TensorFlow 1 program initializes only the variables in collections.
    return tf.cond(
        variable.is_initialized(),
        lambda: tf.convert_to_tensor(variable),
        lambda: tf.zeros(variable.shape, variable.dtype),
    )


def known_operations(results):
    """Return the graph operations that created `results`, or [] in eager mode."""
    if tf.executing_eagerly():
        return []
    made = [getattr(result, "op", result) for result in results]
    return [operation for operation in made if isinstance(operation, tf.Operation)]


def value_after(operations, value):
    """Return `value` as a tensor. In a graph, `operations` run before the tensor."""
    # A graph of TensorFlow 1 runs only the operations on which a result depends.
    with tf.control_dependencies(known_operations(operations)):
        return tf.constant(value)


def warn(condition, text, *values):
    """Warn in each step in which `condition` is True.

    The warning is `text` with its placeholders `{}` replaced by `values`. XLA cannot print, so
    callers call this function in the first argument of `plain_or_compiled`.
    """
    if tf.executing_eagerly():
        if condition:
            values = [tf.compat.as_str_any(np.asarray(value)[()]) for value in values]
            log.logger().warning(text.format(*values))
    elif log.logger().isEnabledFor(logging.WARNING):
        # `tf.strings.format` would put quotation marks around strings.
        strings = [
            v if v.dtype == tf.string else tf.strings.format("{}", v) for v in values
        ]
        first, *parts = f"{text}\n".split("{}")
        pairs = (string for pair in zip(strings, parts) for string in pair)
        message = tf.strings.join([first, *pairs])
        # If `condition` is False, print the empty string, which has no effect. A `tf.cond`
        # around `tf.print` would need more memory in each trace.
        tf.print(tf.where(condition, message, ""), output_stream=sys.stderr, end="")
