"""Count the steps that an optimizer skips, and record which gradients overflowed."""

from typing import Any, NamedTuple

import tensorflow as tf

from tf_lso.frameworks import graphs, log
from tf_lso.scaling import gradients as gradients_lib

# A bit for infinity and a bit for NaN. The sum of a gradient's bits is an index into `_KINDS`.
_INF, _NAN = 1, 2
_KINDS = ["", "inf", "nan", "inf, nan"]
_MOST = 5  # the largest number of variables that one warning names
_STUCK = (
    "The gradients were not finite although the loss scale is at its minimum, {} (steps "
    "in a row: {}). Not finite: {}. Scaling cannot help: look for NaN or infinity in the "
    "data and the loss, lower the learning rate, or set `min_scale` lower. "
    "See `tf-lso help stuck`"
)


class Overflow(NamedTuple):
    """A variable whose gradient was not finite."""

    # `variable` is the path of the variable, or its name if it has no path.
    variable: str
    # `kind` says what the gradient contained: "inf", "nan" or "inf, nan".
    kind: str


def _path(variable):
    path = gradients_lib.attribute_of(variable, "path")
    return path or variable.name.removesuffix(":0")


class Skipped:
    """Counts the skipped steps of one optimizer, and records which gradients overflowed."""

    def __init__(self, loss_scale):
        self._loss_scale = loss_scale
        self._total = graphs.unsaved_variable(0, "skipped_steps")
        self._in_a_row = graphs.unsaved_variable(0, "consecutive_skipped_steps")
        # A vector with one number for each variable. The number says what the gradient of the
        # variable contained in the last skipped step. It is an index into `_KINDS`, which lists
        # the possible contents. The vector grows if a legacy optimizer gets further variables.
        self._overflowed = graphs.unsaved_variable([], "overflowed", [None])
        # The variables in the order of the vector `_overflowed`. This list keeps the variables
        # alive, so that no other object can get their ids.
        self._variables: list[Any] = []
        # Maps the id of each variable to the index of the variable in `_variables`.
        self._places: dict[int, int] = {}
        # True if XLA compiled a step that may be skipped. XLA cannot print the warning about a
        # skipped step, so `report` logs the warning later.
        self._is_unreported = False
        self._reported_total = 0

    def knows(self, variables):
        """Return whether `watch` has been called with each of these variables."""
        return all(id(variable) in self._places for variable in variables)

    def watch(self, variables):
        """Prepare to record which gradients of `variables` overflow.

        Call this method before a step that updates new variables. The vector `_overflowed` has
        one number for each variable. The method makes the vector longer if variables are new.
        """
        for variable in variables:
            if id(variable) not in self._places:
                self._places[id(variable)] = len(self._variables)
                self._variables.append(variable)
        with tf.init_scope():
            if tf.executing_eagerly():
                new = len(self._variables) - int(tf.size(self._overflowed))
                self._overflowed.assign(tf.pad(self._overflowed, [[0, new]]))

    def variables(self):
        """Return a dict of the variables of this object that traced steps use.

        The dict maps names to variables. A SavedModel with traced steps must contain the
        variables.
        """
        variables = [self._total, self._in_a_row, self._overflowed]
        names = ["skipped_steps", "consecutive_skipped_steps", "overflowed"]
        return dict(zip(names, variables))

    # --- Called by a step.

    def note_applied(self):
        """Set the count of consecutive skipped steps to 0. Return a list of the assign ops."""
        return [self._in_a_row.assign(0, read_value=False)]

    def note_skipped(self, kinds, variables):
        """Count a skipped step, and record which gradients overflowed. Return the assign ops.

        Call this method before the scale changes. `kinds` is a bool tensor with one row for
        each of `variables`. The first column says whether the gradient of the variable contains
        infinity. The second column says whether the gradient contains NaN.
        """
        total, in_a_row = self.total() + 1, self.in_a_row() + 1
        kinds, places = self._by_place(kinds, variables)
        if graphs.in_xla():
            # XLA cannot print the warning about skipped steps, so `report` logs it later.
            self._is_unreported = True
        else:
            self._warn_if_stuck(in_a_row, tf.gather(kinds, places), places)
        return [
            self._total.assign(total, read_value=False),
            self._in_a_row.assign(in_a_row, read_value=False),
            self._overflowed.assign(kinds, read_value=False),
        ]

    def _by_place(self, kinds, variables):
        """Return the new value of the vector `_overflowed`, and indices into this vector.

        The indices of `variables` are a list in ascending order. `kinds` is a tensor like that
        of `note_skipped`.
        """
        places = [self._places[id(variable)] for variable in variables]
        # Read the size of `_overflowed` when the graph runs, because `watch` may make this
        # vector longer after this code was traced. In TensorFlow 1 `watch` cannot make the
        # vector longer, so use the number of variables instead.
        is_fixed = graphs.in_tensorflow_1()
        size = len(self._variables) if is_fixed else tf.size(self._overflowed)
        bits = tf.cast(kinds, tf.int64)
        # If a variable occurs several times in `variables`, the segment maximum combines its
        # rows of `bits`. If a variable does not occur in `variables`, its segment maximum is
        # the smallest int64, which `tf.maximum` replaces by 0.
        bits = tf.maximum(tf.math.unsorted_segment_max(bits, places, size), 0)
        kinds = tf.linalg.matvec(bits, tf.constant([_INF, _NAN], tf.int64))
        return kinds, sorted(set(places))

    def _warn_if_stuck(self, in_a_row, kinds, places):
        # Warn after 1, 2, 4, 8, ... skipped steps in a row, so that a run that cannot
        # recover does not fill the log.
        is_due = tf.reduce_any(tf.equal(in_a_row, [2**power for power in range(63)]))
        paths = [_path(self._variables[place]) for place in places]
        texts = tf.strings.join([paths, " (", tf.gather(_KINDS, kinds), ")"])
        found = tf.boolean_mask(texts, kinds > 0)[:_MOST]
        found = tf.strings.reduce_join(found, separator=", ")
        is_stuck = self._loss_scale._is_at_minimum() & is_due
        graphs.warn(is_stuck, _STUCK, self._loss_scale(), in_a_row, found)

    # --- Called when programs ask for the counts.

    def total(self):
        """Return the number of skipped steps as an int64 scalar tensor."""
        return graphs.read_or_zero(self._total)

    def in_a_row(self):
        """Return the number of consecutive skipped steps as an int64 scalar tensor."""
        return graphs.read_or_zero(self._in_a_row)

    def stuck(self):
        """Return the result of `in_a_row` if the loss scale is at its minimum, else 0.

        `in_a_row` counts the consecutive skipped steps.
        """
        return tf.where(self._loss_scale._is_at_minimum(), self.in_a_row(), 0)

    def overflows(self):
        """Return an `Overflow` for each variable that overflowed in the last skipped step.

        The result is a list. Call this method in eager code only.
        """
        kinds = zip(self._variables, self._overflowed.numpy())
        return [Overflow(_path(v), _KINDS[kind]) for v, kind in kinds if kind]

    def report(self):
        """Log the warning that a step in XLA could not print. In a graph do nothing."""
        if not self._is_unreported or not tf.executing_eagerly():
            return
        total, stuck = int(self.total()), int(self.stuck())
        if total != self._reported_total and stuck:
            found = ", ".join(f"{path} ({kind})" for path, kind in self.overflows())
            log.logger().warning(_STUCK.format(float(self._loss_scale()), stuck, found))
        self._reported_total = total
