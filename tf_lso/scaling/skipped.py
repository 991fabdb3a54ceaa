"""Count the steps that an optimizer skips, and record which gradients overflowed."""

import threading
from typing import Any, NamedTuple

import tensorflow as tf

from tf_lso.frameworks import graphs, log
from tf_lso.scaling import gradients as gradients_lib

_KINDS = ("", "inf", "nan", "inf, nan")  # by the bits of `finite.INF` and `finite.NAN`
_STUCK = (
    "The gradients were not finite although the loss scale is at its minimum, {} (steps "
    "in a row: {}). Scaling cannot help: look for NaN or infinity in the data and the loss, "
    "lower the learning rate, or set `min_scale` lower. `optimizer.last_overflow` names the "
    "variables, and tf_lso.debugging.explain() finds the layer. See `tf-lso help stuck`"
)


class Overflow(NamedTuple):
    """A variable whose gradient was not finite.

    Fields:
      variable: str, the path of the variable, or its name if it has no path.
      kind: "inf", "nan" or "inf, nan", what the gradient contained.
    """

    variable: str
    kind: str


def _path(variable):
    path = gradients_lib.attribute_of(variable, "path")
    return path or variable.name.removesuffix(":0")


class _Record(NamedTuple):
    """What the last skipped step with these variables has found.

    Fields:
      number: int. The optimizer stores the number of the record that was written last.
      variables: list of variables.
      kinds: int64 vector, or variable of it, with the kind of each variable's gradient.
    """

    number: int
    variables: list[Any]
    kinds: Any


class Skipped:
    """Counts the skipped steps of one optimizer, and records which gradients overflowed."""

    def __init__(self, loss_scale):
        self._loss_scale = loss_scale
        self._total = graphs.unsaved_variable(0, "skipped_steps")
        self._in_a_row = graphs.unsaved_variable(0, "consecutive_skipped_steps")
        # The number of the record that was written last. Eager steps share the number 0.
        self._last = graphs.unsaved_variable(0, "last_skipped_step")
        self._of_eager_step = _Record(0, [], [])
        # The records of traced steps, by the ids of their variables. Steps with the same
        # variables share a record.
        self._of_traced_steps: dict[tuple[int, ...], _Record] = {}
        self._lock = threading.Lock()
        # True if XLA compiled a step that may be skipped.
        self._is_unreported = False
        self._reported_total = 0

    def knows(self, variables):
        """Return whether `prepare` was called with these variables."""
        return tuple(map(id, variables)) in self._of_traced_steps

    def prepare(self, variables):
        """Prepare the record of a traced step, and return it."""
        key = tuple(map(id, variables))
        if key not in self._of_traced_steps:
            kinds = graphs.unsaved_variable([0] * len(variables), "overflowed")
            with self._lock:
                number = len(self._of_traced_steps) + 1
                record = _Record(number, list(variables), kinds)
                self._of_traced_steps.setdefault(key, record)
        return self._of_traced_steps[key]

    def variables(self):
        """Return {name: variable} for the variables that traced steps use.

        A SavedModel with traced steps must contain the variables.
        """
        records = list(self._of_traced_steps.values())
        return {
            "skipped_steps": self._total,
            "consecutive_skipped_steps": self._in_a_row,
            "last_skipped_step": self._last,
            **{f"overflowed_{record.number}": record.kinds for record in records},
        }

    # --- Called by a step.

    def note_applied(self):
        """Set the count of consecutive skipped steps to 0. Return a list of the assign ops."""
        return [self._in_a_row.assign(0, read_value=False)]

    def note_skipped(self, kinds, variables):
        """Count a skipped step, and record the kinds of its gradients. Return the assign ops.

        Call this method before the scale changes. `kinds` is an int64 vector with the kind of
        the gradient of each variable, as the module `finite` defines it.
        """
        total, in_a_row = self.total() + 1, self.in_a_row() + 1
        # XLA cannot print, so `report` logs the warning later.
        self._is_unreported |= graphs.in_xla()
        warned = graphs.plain_or_compiled(
            lambda: self._warn_if_stuck(in_a_row), lambda: tf.constant(True)
        )
        return [
            warned,
            self._total.assign(total, read_value=False),
            self._in_a_row.assign(in_a_row, read_value=False),
            *self._write(kinds, variables),
        ]

    def _write(self, kinds, variables):
        if tf.executing_eagerly():
            self._of_eager_step = _Record(0, variables, kinds)
            return [self._last.assign(0, read_value=False)]
        record = self.prepare(variables)
        return [
            record.kinds.assign(kinds, read_value=False),
            self._last.assign(record.number, read_value=False),
        ]

    def _warn_if_stuck(self, in_a_row):
        # Warn after 1, 2, 4, 8, ... skipped steps in a row, so that a run that cannot
        # recover does not fill the log.
        is_due = tf.reduce_any(tf.equal(in_a_row, [2**power for power in range(63)]))
        is_stuck = self._loss_scale._is_at_minimum() & is_due
        graphs.warn(is_stuck, _STUCK, self._loss_scale._current(), in_a_row)
        return tf.constant(True)

    # --- Called when programs ask for the counts.

    def total(self):
        """Return the number of skipped steps as an int64 scalar tensor."""
        return graphs.read_or_zero(self._total)

    def in_a_row(self):
        """Return the number of consecutive skipped steps as an int64 scalar tensor."""
        return graphs.read_or_zero(self._in_a_row)

    def stuck(self):
        """Return the result of `in_a_row` if the loss scale is at its minimum, else 0."""
        return tf.where(self._loss_scale._is_at_minimum(), self.in_a_row(), 0)

    def overflows(self):
        """Return an `Overflow` for each variable that overflowed in the last skipped step.

        The result is a list. Call this method in eager code only.
        """
        records = [self._of_eager_step, *self._of_traced_steps.values()]
        _, variables, kinds = records[self._last.numpy()]
        # A variable may have several gradients in one step.
        bits: dict[int, int] = {}
        for variable, kind in zip(variables, tf.convert_to_tensor(kinds).numpy()):
            bits[id(variable)] = bits.get(id(variable), 0) | int(kind)
        found = {id(v): Overflow(_path(v), _KINDS[bits[id(v)]]) for v in variables}
        return [overflow for overflow in found.values() if overflow.kind]

    def report(self):
        """Log the warning that a step in XLA could not print. In a graph do nothing."""
        if not self._is_unreported or not tf.executing_eagerly():
            return
        total, stuck = int(self.total()), int(self.stuck())
        if total != self._reported_total and stuck:
            log.logger().warning(
                _STUCK.format(float(self._loss_scale._current()), stuck)
            )
        self._reported_total = total
