"""The variables of a dynamic loss scale, and how a step moves them.

`rule.py` says what the next scale is. This module reads and writes the variables, in
eager mode and in graphs, and reports a scale that cannot help any more.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from tf_lso.scaling import report
from tf_lso.scaling import rule as rule_lib
from tf_lso.scaling.fast import branches, shared
from tf_lso.scaling.graphs import after, known_operations


def _where(condition, if_true, if_false):
    """`tf.where` of a tensor and a number, in the tensor's dtype."""
    dtype = next(x.dtype for x in (if_true, if_false) if hasattr(x, "dtype"))
    return tf.where(
        condition,
        tf.convert_to_tensor(if_true, dtype),
        tf.convert_to_tensor(if_false, dtype),
    )


def local_variable(initial_value, name, dtype, shape=None):
    """Make a variable that is the same on every replica and is never aggregated."""
    with tf.init_scope():
        return tf.Variable(
            initial_value,
            name=name,
            dtype=dtype,
            shape=shape,
            trainable=False,
            aggregation=tf.VariableAggregation.NONE,
            # The value is a constant, which no function being traced must hold back.
            # With lifting, `tf.function` would trace a second time.
            experimental_enable_variable_lifting=False,
        )


def in_tensorflow_1():
    """Whether the code runs in a graph of TensorFlow 1, around which nothing is eager."""
    with tf.init_scope():
        return not tf.executing_eagerly()


def unsaved_variable(initial_value, name, shape=None):
    """Make such a variable of int64, and keep it out of all checkpoints."""
    variable = local_variable(initial_value, name, tf.int64, shape)
    with tf.init_scope():
        if not tf.executing_eagerly():
            # In a graph of TensorFlow 1 the `tf.compat.v1.train.Saver` takes all
            # variables of this list, and fails if an old checkpoint lacks one.
            saved = tf.compat.v1.get_collection_ref(
                tf.compat.v1.GraphKeys.GLOBAL_VARIABLES
            )
            saved[:] = [v for v in saved if v is not variable]
    return variable


def read_or_zero(variable):
    """Return the value of an `unsaved_variable`, 0 if it was never initialized.

    A graph of TensorFlow 1 initializes only the variables in its lists.
    """
    if not in_tensorflow_1():
        return tf.convert_to_tensor(variable)
    return tf.cond(
        variable.is_initialized(),
        lambda: tf.convert_to_tensor(variable),
        lambda: tf.zeros(variable.shape, variable.dtype),
    )


def _moved(rule, where, scale, count, skipped, stuck, finite):
    """Return what a step leaves, also one that does not only count.

    Args:
      rule: the `ScaleRule`.
      where: see `rule.py`.
      scale: the scale before the step, as a scalar, like the others.
      count: the finite steps before it.
      skipped: the first number of `ScaleVariables.in_a_row` before it.
      stuck: the second.
      finite: whether its gradients were finite.

    Returns:
      List of: whether the scale was usable; the next scale, count, skipped and stuck.
    """
    usable = rule_lib.is_usable(scale)
    state = rule_lib.ScaleState(scale, count, skipped)
    with np.errstate(over="ignore", invalid="ignore"):
        state = rule_lib.next_state(rule, state, finite, where)
    is_stuck = ~finite & usable & (scale <= rule.min_scale)
    return [usable, *state, where(is_stuck, where(count < 1, stuck + 1, 1), 0)]


def _in_float32(rule):
    """Return a `ScaleRule` with float32 numbers, as graphs have them."""
    numbers = vars(rule).items()
    return dataclasses.replace(
        rule, **{name: np.float32(x) for name, x in numbers if isinstance(x, float)}
    )


def _damaged(usable, scale):
    """Return the reason to warn of a scale that was not usable, see `report.warn`."""
    return [~usable, scale]


def _in_a_row(minimum, scale, count, in_a_row):
    """Return `ScaleVariables.in_a_row`, or 0 for a number that means nothing now."""
    # A checkpoint may have given back a larger scale and a count of 0.
    return [tf.where((count < 1) & [True, scale <= minimum], in_a_row, 0)]


class ScaleVariables:
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
        self._rule, self._float32_rule = rule, _in_float32(rule)
        self._scale, self._count = scale, count
        self.in_a_row = unsaved_variable([0, 0], "skipped_in_a_row")

    def advance(self, finite):
        """Move the scale after a step.

        Args:
          finite: whether the gradients of all replicas are finite, a scalar bool tensor.

        Returns:
          In a graph a tensor that exists when the scale has moved.
        """
        if tf.executing_eagerly():
            return self._advance_eagerly(np.bool_(finite))

        def move():
            scale, count, _ = self._state()
            numbers = [scale, count, *tf.unstack(read_or_zero(self.in_a_row)), finite]
            shapes = ((),) * len(numbers)
            moved = shared.call(_moved, numbers, (self._rule, _where), shapes)
            # A graph of TensorFlow 1 could assign before it reads.
            with tf.control_dependencies(known_operations(numbers)):
                return after(self._move(self._rule, scale, moved), False)

        return branches.either(
            rule_lib.only_counts(self._rule, self._state(), finite),
            # In place, so that threads that share the scale lose no step.
            lambda: after([self._count.assign_add(1, read_value=False)], True),
            branches.seldom(move),
            of=[],
        )

    def _advance_eagerly(self, finite):
        # With NumPy numbers, since each operation on tensors costs more.
        rule = self._float32_rule
        before = rule_lib.ScaleState(self._scale.numpy(), self._count.numpy())
        if rule_lib.only_counts(rule, before, finite):
            self._count.assign_add(1)
        else:
            numbers = (before.scale, before.count, *self.in_a_row.numpy(), finite)
            self._move(rule, before.scale, _moved(rule, rule_lib.select, *numbers))

    def _state(self):
        return rule_lib.ScaleState(
            tf.convert_to_tensor(self._scale), tf.convert_to_tensor(self._count)
        )

    def _move(self, rule, scale, moved):
        """Set all variables to what `_moved` returned; return the ops."""
        usable, *moved = moved
        report.warn(
            "The loss scale was {}, which is no positive finite number (a damaged "
            f"checkpoint?). It returns to {rule.initial_scale}.",
            _damaged,
            [usable, scale],
            ((), ()),
        )
        scale, count, *in_a_row = moved
        return [
            self._scale.assign(scale, read_value=False),
            self._count.assign(count, read_value=False),
            self.in_a_row.assign(in_a_row, read_value=False),
        ]

    def assign(self, value):
        """Set the scale; the count starts again.

        Args:
          value: Python float.

        Raises:
          RuntimeError: in a graph of TensorFlow 1, where nothing would run it.
        """
        if in_tensorflow_1():
            raise RuntimeError(
                f"'loss_scale' cannot be set in a graph of TensorFlow 1, but got: "
                f"{value!r}. Give the scale to the constructor."
            )
        # The last steps were skipped all the same.
        self.in_a_row.assign([self.numbers_in_a_row()[0], 0])
        self._scale.assign(value)
        self._count.assign(0)

    def numbers_in_a_row(self):
        """Return the numbers of `in_a_row`, 0 where they mean nothing, a tensor."""
        numbers = [*self._state()[:2], read_or_zero(self.in_a_row)]
        settings = (self._rule.min_scale,)
        [numbers] = shared.call(_in_a_row, numbers, settings, ((), (), (2,)))
        return numbers

    def numbers_if_skipped(self):
        """Return `numbers_in_a_row` as they will be if the running step is skipped."""
        scale = self._state().scale
        is_stuck = rule_lib.is_usable(scale) & (scale <= self._rule.min_scale)
        more = tf.cast(tf.stack([True, is_stuck]), tf.int64)
        return (self.numbers_in_a_row() + 1) * more
