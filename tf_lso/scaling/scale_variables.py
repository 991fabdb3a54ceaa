"""The variables of a dynamic loss scale, moved by `rule.py`, eagerly and in graphs."""

import dataclasses

import numpy as np
import tensorflow as tf

from tf_lso import graphs
from tf_lso.scaling import fast
from tf_lso.scaling import rule as rule_lib


class ScaleVariables:
    """The scale, float32, and the finite steps since it changed, int64; see `ScaleRule`."""

    def __init__(self, rule, scale, count):
        self._rule, self._scale, self._count = rule, scale, count
        # With float32 numbers, as graphs have them.
        fields = vars(rule).items()
        floats = {name: np.float32(x) for name, x in fields if isinstance(x, float)}
        self._float32_rule = dataclasses.replace(rule, **floats)
        # The skipped steps in a row, and how many of them began with the scale at its
        # minimum. It means something only while the count is 0, since steps that only
        # count do not write it.
        self.in_a_row = graphs.unsaved_variable([0, 0], "skipped_in_a_row")

    def _state(self):
        values = map(tf.convert_to_tensor, (self._scale, self._count))
        return rule_lib.ScaleState(*values)

    def advance(self, finite):
        """Move the scale after a step; return in a graph a tensor that then exists."""
        if tf.executing_eagerly():
            # With NumPy numbers, since each operation on tensors costs more.
            rule, finite = self._float32_rule, np.bool_(finite)
            state = rule_lib.ScaleState(self._scale.numpy(), self._count.numpy())
            if rule_lib.only_counts(rule, state, finite):
                self._count.assign_add(1)
            else:
                self._move(rule, state, self.in_a_row.numpy(), finite, rule_lib.select)
            return None

        def move():
            in_a_row = tf.unstack(graphs.read_or_zero(self.in_a_row))
            moved = self._move(self._rule, self._state(), in_a_row, finite, tf.where)
            return graphs.after(moved, True)

        return tf.cond(
            rule_lib.only_counts(self._rule, self._state(), finite),
            # In place, so that threads that share the scale lose no step.
            lambda: graphs.after([self._count.assign_add(1, read_value=False)], True),
            fast.seldom(move),
        )

    def _move(self, rule, state, in_a_row, finite, where):
        """Set all variables to what a step leaves, also one that only counts."""
        usable = rule_lib.is_usable(state.scale)
        graphs.warn(
            ~usable,
            "The loss scale was {}, which is no positive finite number (a damaged "
            f"checkpoint?). It returns to {rule.initial_scale}.",
            state.scale,
        )
        skipped, stuck = in_a_row
        state = state._replace(skipped=skipped)
        with np.errstate(over="ignore", invalid="ignore"):
            moved = rule_lib.next_state(rule, state, finite, where)
        is_stuck = ~finite & usable & (state.scale <= rule.min_scale)
        stuck = where(is_stuck, where(state.count < 1, stuck + 1, 1), 0)
        # A graph of TensorFlow 1 could assign before it reads.
        with tf.control_dependencies(graphs.known_operations([*state, stuck])):
            return [
                self._scale.assign(moved.scale, read_value=False),
                self._count.assign(moved.count, read_value=False),
                self.in_a_row.assign([moved.skipped, stuck], read_value=False),
            ]

    def assign(self, value):
        """Set the scale to a float; the count starts again."""
        if graphs.in_tensorflow_1():  # nothing would run it
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
        scale, count, _ = self._state()
        # A checkpoint may have given back a larger scale and a count of 0.
        hold = (count < 1) & tf.stack([True, scale <= self._rule.min_scale])
        return tf.where(hold, graphs.read_or_zero(self.in_a_row), 0)

    def numbers_if_skipped(self):
        """Return `numbers_in_a_row` as they will be if the running step is skipped."""
        scale = self._state().scale
        is_stuck = rule_lib.is_usable(scale) & (scale <= self._rule.min_scale)
        return tf.where(tf.stack([True, is_stuck]), self.numbers_in_a_row() + 1, 0)
