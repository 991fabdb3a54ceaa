"""Count the steps that an optimizer skips, and record which gradients overflowed."""

from typing import Any, NamedTuple

import tensorflow as tf

from tf_lso.frameworks import graphs, log
from tf_lso.scaling import gradients as gradients_lib

_INF, _NAN = 1, 2  # bits, whose sum is an index into _KINDS
_KINDS = ["", "inf", "nan", "inf, nan"]
_MOST = 5  # the most variables that a warning names
_STUCK = (
    "The gradients were not finite although the loss scale is at its minimum, {} (steps "
    "in a row: {}). Not finite: {}. Scaling cannot help: look for NaN or infinity in the "
    "data and the loss, lower the learning rate, or set `min_scale` lower. "
    "See `tf-lso help stuck`"
)


class Overflow(NamedTuple):
    """A variable whose gradient was not finite."""

    variable: str  # the variable's path
    kind: str  # what its gradient held: "inf", "nan" or "inf, nan"


def _path(variable):
    path = gradients_lib.attribute_of(variable, "path")
    return path or variable.name.removesuffix(":0")


class Skipped:
    """Counts the skipped steps of one optimizer, and records which gradients overflowed."""

    def __init__(self, loss_scale):
        self._loss_scale = loss_scale
        self._total = graphs.unsaved_variable(0, "skipped_steps")
        self._in_a_row = graphs.unsaved_variable(0, "consecutive_skipped_steps")
        # For each variable an index into `_KINDS`, which says what its gradient held in the
        # last skipped step. The vector grows if a legacy optimizer gets further variables.
        self._overflowed = graphs.unsaved_variable([], "overflowed", [None])
        # A reference to each variable, so that no other object can get its id.
        self._variables: list[Any] = []
        self._places: dict[int, int] = {}  # id of a variable -> index in `_overflowed`
        # Whether a step that may be skipped was traced under XLA, which cannot print warnings.
        self._is_unreported = False
        self._reported_total = 0

    def knows(self, variables):
        """Return whether `watch` was called with all these variables."""
        return all(id(variable) in self._places for variable in variables)

    def watch(self, variables):
        """Make room in `_overflowed` for the variables. Call this before the step."""
        for variable in variables:
            if id(variable) not in self._places:
                self._places[id(variable)] = len(self._variables)
                self._variables.append(variable)
        with tf.init_scope():
            if tf.executing_eagerly():
                new = len(self._variables) - int(tf.size(self._overflowed))
                self._overflowed.assign(tf.pad(self._overflowed, [[0, new]]))

    def variables(self):
        """Return {name: variable} with the variables of this object that traced steps use."""
        variables = [self._total, self._in_a_row, self._overflowed]
        names = ["skipped_steps", "consecutive_skipped_steps", "overflowed"]
        return dict(zip(names, variables))

    # --- Called by a step.

    def note_applied(self):
        """Set the count of consecutive skipped steps to 0, and return a list of ops."""
        return [self._in_a_row.assign(0, read_value=False)]

    def note_skipped(self, kinds, variables):
        """Count a skipped step and return a list of ops. Call this before the scale changes.

        `kinds` says what the gradient of each variable holds, see `Verdict.kinds`.
        """
        total, in_a_row = self.total() + 1, self.in_a_row() + 1
        kinds, places = self._by_place(kinds, variables)
        if graphs.in_xla():
            self._is_unreported = True  # XLA cannot print, so `report` warns later
        else:
            self._warn_if_stuck(in_a_row, tf.gather(kinds, places), places)
        return [
            self._total.assign(total, read_value=False),
            self._in_a_row.assign(in_a_row, read_value=False),
            self._overflowed.assign(kinds, read_value=False),
        ]

    def _by_place(self, kinds, variables):
        """Return the value to assign to `_overflowed`, and where it holds `variables`."""
        places = [self._places[id(variable)] for variable in variables]
        # `_overflowed` may grow after this code was traced. In TensorFlow 1 `watch` cannot
        # resize it, so the number of variables is used.
        is_fixed = graphs.in_tensorflow_1()
        size = len(self._variables) if is_fixed else tf.size(self._overflowed)
        bits = tf.cast(kinds, tf.int64)
        # A variable may occur in several pairs. A variable without a gradient gets the
        # smallest int64, which becomes 0.
        bits = tf.maximum(tf.math.unsorted_segment_max(bits, places, size), 0)
        kinds = tf.linalg.matvec(bits, tf.constant([_INF, _NAN], tf.int64))
        return kinds, sorted(set(places))

    def _warn_if_stuck(self, in_a_row, kinds, places):
        # Warn after 1, 2, 4, 8, ... skipped steps, so that a lost run does not fill the log.
        is_due = tf.reduce_any(tf.equal(in_a_row, [2**power for power in range(63)]))
        paths = [_path(self._variables[place]) for place in places]
        texts = tf.strings.join([paths, " (", tf.gather(_KINDS, kinds), ")"])
        found = tf.boolean_mask(texts, kinds > 0)[:_MOST]
        found = tf.strings.reduce_join(found, separator=", ")
        is_stuck = self._loss_scale._is_at_minimum() & is_due
        graphs.warn(is_stuck, _STUCK, self._loss_scale(), in_a_row, found)

    # --- Read by programs.

    def total(self):
        """Return the number of skipped steps, an int64 scalar tensor."""
        return graphs.read_or_zero(self._total)

    def in_a_row(self):
        """Return the number of steps skipped since the last applied one, an int64 scalar."""
        return graphs.read_or_zero(self._in_a_row)

    def stuck(self):
        """Return `in_a_row` if the scale is at its minimum, else 0."""
        return tf.where(self._loss_scale._is_at_minimum(), self.in_a_row(), 0)

    def overflows(self):
        """Return a list of `Overflow` for the last skipped step. Call this in eager code."""
        kinds = zip(self._variables, self._overflowed.numpy())
        return [Overflow(_path(v), _KINDS[kind]) for v, kind in kinds if kind]

    def report(self):
        """In eager code, log the warning of a stuck scale that XLA could not print."""
        if not self._is_unreported or not tf.executing_eagerly():
            return
        total, stuck = int(self.total()), int(self.stuck())
        if total != self._reported_total and stuck:
            found = ", ".join(f"{path} ({kind})" for path, kind in self.overflows())
            log.logger().warning(_STUCK.format(float(self._loss_scale()), stuck, found))
        self._reported_total = total
