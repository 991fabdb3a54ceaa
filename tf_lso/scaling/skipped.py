"""Count the steps that an optimizer skips, and record which gradients overflowed."""

import threading
from typing import Any, NamedTuple

import tensorflow as tf

from tf_lso.frameworks import graphs, log
from tf_lso.scaling import gradients as gradients_lib

_KINDS = ("", "inf", "nan", "inf, nan")  # the index is a kind, see `finite.INF`
_STUCK = (
    "The gradients were not finite although the loss scale is at its minimum, {} (steps "
    "in a row: {}). `optimizer.last_overflow` names the variables. If it contains NaN, look "
    "at the data and the loss. If it is infinity, tf_lso.debugging.explain() finds the layer, "
    "and says whether a lower `min_scale` would fit. See `tf-lso help stuck`"
)


class Overflow(NamedTuple):
    """A variable whose gradient was not finite.

    Fields:
      variable: str, the path of the variable, or its name if it has no path.
      kind: str, what the gradient contained: "inf", "nan" or "inf, nan".
    """

    variable: str
    kind: str


def _path(variable):
    path = gradients_lib.attribute_of(variable, "path")
    return path or variable.name.removesuffix(":0")


def _assign_next(variable, value):
    """Add 1 to the count `variable`. The caller has computed the sum, `value`."""
    if graphs.in_tensorflow_1():  # the variable may be uninitialized
        return variable.assign(value, read_value=False)
    # Do not assign `value`, because several threads may skip steps at the same time.
    return variable.assign_add(1, read_value=False)


class Skipped:
    """The counts of one optimizer, and the record of its last skipped step."""

    def __init__(self, loss_scale):
        self._loss_scale = loss_scale
        self._total = graphs.unsaved_variable(0, "skipped_steps")
        self._in_a_row = graphs.unsaved_variable(0, "consecutive_skipped_steps")
        # The record of the last skipped step: the number of its list of variables, then the
        # kind of each variable's gradient, then zeros. After a step in XLA, all are negative.
        # All of the record is in one variable, so that the records of several threads cannot
        # mix.
        self._last = graphs.unsaved_variable([0], "last_skipped_step", [None])
        # A list of variables for each traced step. The number of such a list is its index here.
        # Eager steps have the number 0, and store variables and kinds in `_of_eager_step`.
        self._lists: list[list[Any]] = [[]]
        # Maps the ids of the variables in a list to the number of the list. The lists keep the
        # variables alive, so that no other object can get the same ids.
        self._numbers: dict[tuple[int, ...], int] = {}
        self._of_eager_step: tuple[list[Any], Any] = ([], [])
        self._lock = threading.Lock()
        self._reported_total = 0

    def prepare(self, variables):
        """Return the number of this list of variables, which a traced step updates.

        Make `_last` large enough for the step, because XLA cannot compile a step that changes
        the shape of a variable.
        """
        key = tuple(map(id, variables))
        with self._lock:
            if key not in self._numbers:
                self._lists.append(list(variables))
                self._numbers[key] = len(self._lists) - 1
                with tf.init_scope():
                    if tf.executing_eagerly():
                        missing = 1 + len(variables) - int(tf.size(self._last))
                        padding = [[0, max(missing, 0)]]
                        self._last.assign(tf.pad(self._last, padding))
        return self._numbers[key]

    def variables(self):
        """Return {name: variable}. A SavedModel must contain the variables its steps use."""
        variables = (self._total, self._in_a_row, self._last)
        names = ("skipped_steps", "consecutive_skipped_steps", "last_skipped_step")
        return dict(zip(names, variables))

    # --- Called by a step.

    def note_applied(self):
        """Set the count of consecutive skipped steps to 0. Return the assign ops."""
        return [self._in_a_row.assign(0, read_value=False)]

    def note_skipped(self, kinds, variables):
        """Count a skipped step, before the scale changes. Return what a step must depend on.

        `kinds` contains the kind of each variable's gradient, as `finite` defines it.
        """
        total, in_a_row = self.total() + 1, self.in_a_row() + 1
        # XLA cannot print, so `report` logs the warning later.
        warned = graphs.plain_or_compiled(
            lambda: self._warn_if_stuck(in_a_row), lambda: tf.constant(True)
        )
        return [
            warned,
            _assign_next(self._total, total),
            _assign_next(self._in_a_row, in_a_row),
            self._last.assign(self._record(kinds, variables), read_value=False),
        ]

    def _record(self, kinds, variables):
        if tf.executing_eagerly():
            self._of_eager_step = (variables, kinds)
            return tf.zeros_like(self._last)
        record = tf.concat([[self.prepare(variables)], kinds], axis=0)
        if graphs.in_tensorflow_1():  # `_last` may be uninitialized
            return record
        # Another function may have made `_last` longer after this one was traced.
        size = tf.size(self._last)
        padded = tf.pad(record, [[0, tf.maximum(size - tf.size(record), 0)]])
        # In XLA the record must get the shape of `_last`, which another thread may change. The
        # minus sign tells `report` that the step could not print.
        return graphs.plain_or_compiled(lambda: padded, lambda: -padded[:size])

    def _warn_if_stuck(self, in_a_row):
        # Warn after 1, 2, 4, 8, ... skipped steps in a row. A warning after each step would
        # fill the log of a run that cannot recover.
        is_due = tf.reduce_any(tf.equal(in_a_row, [2**power for power in range(63)]))
        is_stuck = self._loss_scale._is_at_minimum() & is_due
        graphs.warn(is_stuck, _STUCK, self._loss_scale._current(), in_a_row)
        return tf.constant(True)

    # --- Called when programs ask for the counts.

    def total(self):
        return graphs.read_or_zero(self._total)

    def in_a_row(self):
        return graphs.read_or_zero(self._in_a_row)

    def stuck(self):
        """Return the result of `in_a_row` if the loss scale is at its minimum, else 0."""
        return tf.where(self._loss_scale._is_at_minimum(), self.in_a_row(), 0)

    def overflows(self):
        """Return an `Overflow` for each variable that overflowed in the last skipped step."""
        number, *kinds = abs(self._last.numpy())
        variables = self._lists[number]
        if number == 0:
            variables, kinds = self._of_eager_step
            kinds = tf.convert_to_tensor(kinds).numpy()
        # A variable may have several gradients in one step.
        bits: dict[int, int] = {}
        for variable, kind in zip(variables, kinds):
            bits[id(variable)] = bits.get(id(variable), 0) | int(kind)
        found = {
            id(v): Overflow(_path(v), _KINDS[bits.get(id(v), 0)]) for v in variables
        }
        return [overflow for overflow in found.values() if overflow.kind]

    def report(self):
        """Log the warning that a step in XLA could not print. In a graph do nothing."""
        if not tf.executing_eagerly():
            return
        total = int(self.total())
        if total == self._reported_total:
            return
        self._reported_total, stuck = total, int(self.stuck())
        was_compiled = self._last.numpy()[0] < 0
        if was_compiled and stuck:
            scale = float(self._loss_scale._current())
            log.logger().warning(_STUCK.format(scale, stuck))
