"""The variables of a dynamic loss scale, moved by `rule.py`, eagerly and in graphs."""

import dataclasses

import numpy as np
import tensorflow as tf

from tf_lso.frameworks import graphs
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
        # The skipped steps in a row, for the hysteresis. It means something only while
        # the count is 0, since steps that only count do not write it.
        self.skipped = graphs.unsaved_variable(0, "skipped_in_a_row")

    def _state(self):
        values = [self._scale, self._count, graphs.read_or_zero(self.skipped)]
        return rule_lib.ScaleState(*map(tf.convert_to_tensor, values))

    def is_at_minimum(self):
        """Return whether the scale cannot shrink any more, a bool scalar tensor."""
        return tf.convert_to_tensor(self._scale) <= self._rule.min_scale

    def advance(self, finite):
        """Move the scale after a step; return in a graph a tensor that then exists."""
        if tf.executing_eagerly():
            self._advance_eagerly(bool(finite))
            return None

        def move():
            return graphs.after(
                self._move(self._rule, self._state(), finite, tf.where), 1
            )

        return tf.cond(
            rule_lib.only_counts(self._rule, self._state(), finite),
            # In place, so that threads that share the scale lose no step.
            lambda: graphs.after([self._count.assign_add(1, read_value=False)], 1),
            fast.seldom(move),
        )

    def _advance_eagerly(self, finite):
        # With NumPy numbers, since each operation on tensors costs more.
        rule = self._float32_rule
        state = rule_lib.ScaleState(self._scale.numpy(), self._count.numpy())
        if rule_lib.only_counts(rule, state, finite):
            self._count.assign_add(1, read_value=False)
            return
        state = state._replace(skipped=self.skipped.numpy())
        self._move(rule, state, np.bool_(finite), rule_lib.select)

    def _move(self, rule, state, finite, where):
        """Set all variables to what a step leaves, also one that only counts."""
        graphs.warn(
            ~rule_lib.is_usable(state.scale),
            "The loss scale was {}, which is no positive finite number (a damaged "
            f"checkpoint?). It returns to {rule.initial_scale}.",
            state.scale,
        )
        with np.errstate(over="ignore", invalid="ignore"):
            moved = rule_lib.next_state(rule, state, finite, where)
        # A graph of TensorFlow 1 could assign before it reads.
        with tf.control_dependencies(graphs.known_operations(state)):
            return [
                self._scale.assign(moved.scale, read_value=False),
                self._count.assign(moved.count, read_value=False),
                self.skipped.assign(moved.skipped, read_value=False),
            ]

    def assign(self, value):
        """Set the scale to a float; the count and the hysteresis start again."""
        if graphs.in_tensorflow_1():  # nothing would run it
            raise RuntimeError(
                f"'loss_scale' cannot be set in a graph of TensorFlow 1, but got: "
                f"{value!r}. Give the scale to the constructor."
            )
        self._scale.assign(value)
        self._count.assign(0)
        self.skipped.assign(0)
