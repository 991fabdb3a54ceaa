"""The variables of a dynamic loss scale. Eager code and graphs update them by `rule.py`."""

import dataclasses

import numpy as np
import tensorflow as tf

from tf_lso.frameworks import graphs
from tf_lso.scaling import fast
from tf_lso.scaling import rule as rule_lib


class ScaleVariables:
    """The variables that store a `ScaleState`, the state of a dynamic loss scale."""

    def __init__(self, rule, scale, count):
        self._rule, self._scale, self._count = rule, scale, count
        # This rule is equal to `rule` but contains float32 numbers, so that eager steps round
        # as graphs do.
        fields = vars(rule).items()
        floats = {name: np.float32(x) for name, x in fields if isinstance(x, float)}
        self._float32_rule = dataclasses.replace(rule, **floats)
        # This variable stores `ScaleState.skipped`, the number of consecutive skipped steps.
        # The scale shrinks if this number reaches the hysteresis.
        self.skipped = graphs.unsaved_variable(0, "skipped_in_a_row")

    def _state(self):
        values = [self._scale, self._count, graphs.read_or_zero(self.skipped)]
        return rule_lib.ScaleState(*map(tf.convert_to_tensor, values))

    def is_at_minimum(self):
        """Return a scalar bool tensor. It is True if the scale cannot shrink further."""
        return tf.convert_to_tensor(self._scale) <= self._rule.min_scale

    def advance(self, finite):
        """Update the variables after a step.

        In eager code return None. In a graph return a tensor that depends on the update.
        """
        if tf.executing_eagerly():
            self._advance_eagerly(bool(finite))
            return None

        def move():
            return graphs.after(
                self._move(self._rule, self._state(), finite, tf.where), 1
            )

        return tf.cond(
            rule_lib.only_counts(self._rule, self._state(), finite),
            # Change the count in one atomic operation, so that every step is counted even if
            # several threads share the scale.
            lambda: graphs.after([self._count.assign_add(1, read_value=False)], 1),
            fast.seldom(move),
        )

    def _advance_eagerly(self, finite):
        # Compute with NumPy numbers, because operations on tensors would take longer.
        rule = self._float32_rule
        state = rule_lib.ScaleState(self._scale.numpy(), self._count.numpy())
        if rule_lib.only_counts(rule, state, finite):
            self._count.assign_add(1, read_value=False)
            return
        state = state._replace(skipped=self.skipped.numpy())
        self._move(rule, state, np.bool_(finite), rule_lib.select)

    def _move(self, rule, state, finite, where):
        """Set all variables to the values that `rule.next_state` returns."""
        graphs.warn(
            ~rule_lib.is_usable(state.scale),
            "The loss scale was {}, which is not a positive finite number (a damaged "
            f"checkpoint?). It returns to {rule.initial_scale}.",
            state.scale,
        )
        with np.errstate(over="ignore", invalid="ignore"):
            moved = rule_lib.next_state(rule, state, finite, where)
        # Make the assignments depend on the values in `state`. Otherwise a graph of TensorFlow
        # 1 could change a variable before it reads the old value.
        with tf.control_dependencies(graphs.known_operations(state)):
            return [
                self._scale.assign(moved.scale, read_value=False),
                self._count.assign(moved.count, read_value=False),
                self.skipped.assign(moved.skipped, read_value=False),
            ]

    def assign(self, value):
        """Set the scale to a float, and set the counts of finite and skipped steps to 0."""
        if graphs.in_tensorflow_1():
            # In a graph of TensorFlow 1 no session would run the assignment.
            raise RuntimeError(
                f"'loss_scale' cannot be set in a graph of TensorFlow 1, but got: "
                f"{value!r}. Give the scale to the constructor."
            )
        self._scale.assign(value)
        self._count.assign(0)
        self.skipped.assign(0)
