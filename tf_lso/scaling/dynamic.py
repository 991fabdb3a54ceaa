"""The variables of a dynamic loss scale, and how a step moves them.

`rule.py` says what the next scale is. This module reads and writes the variables, in
eager mode and in graphs, and reports a scale that cannot help any more.
"""

import numpy as np
import tensorflow as tf

from tf_lso.scaling import apply as apply_lib
from tf_lso.scaling import arguments, report
from tf_lso.scaling import rule as rule_lib
from tf_lso.scaling.fast import branches


def _where(condition, if_true, if_false):
    """`tf.where` of a tensor and a number, in the tensor's dtype."""
    dtype = next(x.dtype for x in (if_true, if_false) if hasattr(x, "dtype"))
    return tf.where(
        condition,
        tf.convert_to_tensor(if_true, dtype),
        tf.convert_to_tensor(if_false, dtype),
    )


def local_variable(initial_value, name, dtype):
    """Make a variable that is the same on every replica and is never aggregated."""
    with tf.init_scope():
        return tf.Variable(
            initial_value,
            name=name,
            dtype=dtype,
            trainable=False,
            aggregation=tf.VariableAggregation.NONE,
            # The value is a constant, which no function being traced must hold back.
            # With lifting, `tf.function` would trace a second time.
            experimental_enable_variable_lifting=False,
        )


def unsaved_variable(initial_value, name, dtype):
    """Make such a variable, and keep it out of all checkpoints."""
    variable = local_variable(initial_value, name, dtype)
    with tf.init_scope():
        if not tf.executing_eagerly():
            # In a graph of TensorFlow 1 the `tf.compat.v1.train.Saver` takes all
            # variables of this list, and fails if an old checkpoint lacks one.
            saved = tf.compat.v1.get_collection_ref(
                tf.compat.v1.GraphKeys.GLOBAL_VARIABLES
            )
            saved[:] = [v for v in saved if v is not variable]
    return variable


def or_zero(variable):
    """Return the value of an `unsaved_variable`, 0 if it was never initialized.

    A graph of TensorFlow 1 initializes only the variables in its lists.
    """
    with tf.init_scope():
        is_initialized = tf.executing_eagerly()
    if is_initialized:
        return tf.convert_to_tensor(variable)
    return tf.cond(
        variable.is_initialized(),
        lambda: tf.convert_to_tensor(variable),
        lambda: tf.zeros(variable.shape, variable.dtype),
    )


class Mover:
    """Moves the variables of one dynamic loss scale.

    Args:
      rule: the `ScaleRule`.
      scale: float32 scalar variable, the loss scale.
      count: int64 scalar variable, the finite steps since the scale last changed.

    Attributes:
      in_a_row: int64 variable of two numbers: the skipped steps in a row, and how many
        of them began with the scale at its minimum. Steps that only count do not write
        it, so it means something only while the count is 0. Checkpoints do not have it.
    """

    def __init__(self, rule, scale, count):
        self._rule, self._float32_rule = rule, arguments.in_float32(rule)
        self._scale, self._count = scale, count
        self.in_a_row = unsaved_variable([0, 0], "skipped_in_a_row", tf.int64)

    def advance(self, finite):
        """Move the scale after a step.

        Args:
          finite: scalar bool tensor, whether the gradients of all replicas were finite.

        Returns:
          What `LossScale.update` returns.
        """
        before = rule_lib.ScaleState(
            tf.convert_to_tensor(self._scale), tf.convert_to_tensor(self._count)
        )

        def count_on():
            # Incremented in place, so that threads that share the scale lose no step.
            return apply_lib.after([self._count.assign_add(1)], True)

        if tf.executing_eagerly():
            # With NumPy numbers, since each operation on tensors costs more.
            numbers = rule_lib.ScaleState(before.scale.numpy(), before.count.numpy())
            verdict, rule = np.bool_(finite), self._float32_rule
            if rule_lib.only_counts(rule, numbers, verdict):
                count_on()
            else:
                in_a_row = self.in_a_row.numpy()
                self._move(numbers, in_a_row, verdict, rule, rule_lib.select)
            return None, finite
        moved = tf.cond(
            rule_lib.only_counts(self._rule, before, finite),
            count_on,
            branches.seldom(
                lambda: self._move(
                    before,
                    tf.unstack(or_zero(self.in_a_row)),
                    finite,
                    self._rule,
                    _where,
                )
            ),
        )
        return moved.op, finite

    def _move(self, before, in_a_row, finite, rule, where):
        """Set all variables, for a step that does not only count."""
        skipped, stuck = in_a_row
        usable = rule_lib.is_usable(before.scale)
        report.warn_if(
            ~usable,
            "The loss scale was {}, which is no positive finite number (a damaged "
            f"checkpoint?). It returns to {rule.initial_scale}.",
            before.scale,
        )
        before = before._replace(skipped=skipped)
        with np.errstate(over="ignore", invalid="ignore"):
            skipped = rule_lib.skipped_in_a_row(before, finite, where)
            moved = rule_lib.moved_scale(rule, before.scale, finite, skipped, where)
        is_stuck = ~finite & usable & (before.scale <= rule.min_scale)
        stuck = where(is_stuck, where(before.count < 1, stuck + 1, 1), 0)
        return apply_lib.after(
            [
                self._scale.assign(moved),
                self._count.assign(0),
                self.in_a_row.assign([skipped, stuck]),
            ],
            False,
        )

    def assign(self, value):
        """Set the scale; the count starts again.

        Args:
          value: Python float.

        Raises:
          RuntimeError: in a graph of TensorFlow 1, where nothing would run it.
        """
        with tf.init_scope():
            if not tf.executing_eagerly():
                raise RuntimeError(
                    f"'loss_scale' cannot be set in a graph of TensorFlow 1, but got: "
                    f"{value!r}. Give the scale to the constructor."
                )
        self._scale.assign(value)
        self._count.assign(0)
        self.in_a_row.assign([0, 0])

    def stuck_steps(self):
        """Return the skipped steps in a row at the minimum, an int64 scalar tensor."""
        # A checkpoint may have given back a larger scale and a count of 0.
        is_stuck = tf.convert_to_tensor(self._scale) <= self._rule.min_scale
        is_stuck &= tf.convert_to_tensor(self._count) < 1
        return tf.where(is_stuck, or_zero(self.in_a_row)[1], 0)
