"""What an optimizer knows of the steps that it skipped.

Only the branch of a skipped step writes here, so that a usual step costs nothing more.
"""

import functools
from typing import NamedTuple

import tensorflow as tf

from tf_lso import log, pages
from tf_lso.scaling import apply as apply_lib
from tf_lso.scaling import gradients as gradients_lib
from tf_lso.scaling import report, scale_variables
from tf_lso.scaling.fast import shared

_INF, _NAN = 1, 2
_MOST = 5  # variables that a warning names
_STUCK = (
    "The gradients were not finite although the loss scale is at its minimum, {} (steps "
    "in a row: {}). Not finite: {}. Scaling cannot help: look for NaN or infinity in the "
    "data and the loss, lower the learning rate, or set `min_scale` lower. "
    f"See {pages.troubleshooting('stuck')}"
)
_KINDS = {_INF: "inf", _NAN: "nan", _INF | _NAN: "inf, nan"}


class Overflow(NamedTuple):
    """A variable whose gradient was not finite.

    Attributes:
      variable: str, the variable's path.
      kind: str, what its gradient held: "inf", "nan" or "inf, nan".
    """

    variable: str
    kind: str


class _Record(NamedTuple):
    """The last skipped step, for variables that were seen together first.

    Attributes:
      paths: list of str.
      numbers: int64 variable: the number of the skipped step, then a number for each
        variable.
      variables: the variables, which are kept so that no other gets their id.
    """

    paths: list[str]
    numbers: tf.Variable
    variables: list


def _held(values):
    """Return what `values` hold, a list of an int64 scalar: a sum of `_INF` and `_NAN`."""
    if values.dtype.is_complex:
        [real], [imaginary] = _held(tf.math.real(values)), _held(tf.math.imag(values))
        return [tf.bitwise.bitwise_or(real, imaginary)]
    if not values.dtype.is_floating:
        return [tf.constant(0, tf.int64)]
    has_inf = tf.cast(tf.reduce_any(tf.math.is_inf(values)), tf.int64)
    has_nan = tf.cast(tf.reduce_any(tf.math.is_nan(values)), tf.int64)
    return [has_inf * _INF + has_nan * _NAN]


def _kind(gradient):
    """Return what a gradient holds, see `_held`.

    Args:
      gradient: tensor, `tf.IndexedSlices`, or a per-replica value of them.
    """
    copies = [gradient]
    if tf.distribute.in_cross_replica_context():
        copies = tf.distribute.get_strategy().experimental_local_results(gradient)
    kinds = [shared.call(_held, [v])[0] for v in gradients_lib.values_of(copies)]
    return functools.reduce(tf.bitwise.bitwise_or, kinds)


def _stuck(scale, times, paths, kinds):
    """Return the reason to warn of a stuck scale, see `report.warn`."""
    # At 1, 10, 100, ... so that a lost run does not fill the log.
    is_told = tf.reduce_any(tf.equal(times, [10**power for power in range(19)]))
    names = tf.gather(["", *_KINDS.values()], kinds)
    texts = tf.strings.join([paths, " (", names, ")"])
    first = tf.boolean_mask(texts, kinds > 0)[:_MOST]
    return [is_told, scale, times, tf.strings.reduce_join(first, separator=", ")]


def _counted(numbers, before, after):
    """Return `Skipped.numbers` after a skipped step.

    Args:
      numbers: those before it.
      before: the optimizer's `iterations` before it.
      after: the same after it.
    """
    steps, in_a_row, position = tf.unstack(numbers)
    in_a_row = tf.where(tf.equal(position, before + 1), in_a_row + 1, 1)
    return [tf.stack([steps + 1, in_a_row, after + 1])]


def _path(variable):
    return getattr(variable, "path", None) or variable.name.removesuffix(":0")


class Skipped:
    """Counts the skipped steps of one optimizer, and notes which gradients overflowed.

    Attributes:
      numbers: int64 variable of three numbers: the skipped steps, how many of them were
        the last in a row, and 1 + the optimizer's `iterations` after the last of them.
        If `iterations` is another now, a step was applied since.
    """

    def __init__(self):
        self.numbers = scale_variables.unsaved_variable([0, 0, 0], "skipped_steps")
        self._records = []
        self._places = {}  # id of a variable -> (position of its record, place in it)
        self._untold = False
        self._told = 0  # the skipped steps when `tell` was called last

    def knows(self, variables):
        """Return whether `watch` was called with all these variables."""
        return all(id(variable) in self._places for variable in variables)

    def watch(self, variables):
        """Make room for what is noted of the variables. Call this before the step."""
        new = [v for v in variables if id(v) not in self._places]
        if not new:
            return
        record = _Record(
            [_path(v) for v in new],
            scale_variables.unsaved_variable([0] * (1 + len(new)), "overflowed"),
            new,
        )
        self._records.append(record)
        for place, variable in enumerate(new):
            self._places[id(variable)] = len(self._records) - 1, place

    def variables(self):
        """Return {name: variable} of all that traced steps use."""
        named = {f"overflowed_{i}": r.numbers for i, r in enumerate(self._records)}
        return {"skipped_steps": self.numbers, **named}

    def note(self, gradients, variables, counter, count, loss_scale):
        """Note a skipped step, in its branch.

        Args:
          gradients: list of aggregated gradients: tensors, `tf.IndexedSlices` or
            per-replica values of them.
          variables: the variable of each gradient; `watch` knows all of them.
          counter: integer variable, the optimizer's `iterations`.
          count: callable without arguments that moves the counter as the optimizer does
            for a skipped step, and returns a list of ops.
          loss_scale: the `LossScale`, which has moved already.

        Returns:
          A list of ops.
        """
        before = tf.cast(tf.convert_to_tensor(counter), tf.int64)
        with tf.control_dependencies(apply_lib.known_operations([before])):
            counted = count()
        with tf.control_dependencies(apply_lib.known_operations(counted)):
            after = tf.cast(tf.convert_to_tensor(counter), tf.int64)
        numbers = [scale_variables.read_or_zero(self.numbers), before, after]
        [numbers] = shared.call(_counted, numbers, shapes=((3,), (), ()))
        kinds = [_kind(gradient) for gradient in gradients]
        if report.in_xla():
            self._untold = True  # XLA cannot print; `tell` does it later
        else:
            paths = [_path(v) for v in variables]
            found = [loss_scale(), loss_scale.stuck_steps()]
            found += [tf.constant(paths), tf.stack(kinds)]
            report.warn(_STUCK, _stuck, found, ((), (), (None,), (None,)))
        return [
            *counted,
            self.numbers.assign(numbers, read_value=False),
            *self._noted(variables, kinds, numbers[0]),
        ]

    def _noted(self, variables, kinds, step):
        """Write what the gradients held into the records of their variables."""
        found = {}  # position of a record -> {place: kind}
        for variable, kind in zip(variables, kinds):
            position, place = self._places[id(variable)]
            found.setdefault(position, {})[place] = kind
        none = tf.constant(0, tf.int64)
        written = []
        for position, of in found.items():
            record = self._records[position]
            held = [of.get(place, none) for place in range(len(record.paths))]
            noted = tf.stack([step, *held])
            written.append(record.numbers.assign(noted, read_value=False))
        return written

    def tell(self, loss_scale):
        """Warn of a stuck scale that a step under XLA could not tell of. Eagerly."""
        if not self._untold or not tf.executing_eagerly():
            return
        step = int(self.total())
        if step != self._told and int(loss_scale.stuck_steps()):
            found = ", ".join(f"{path} ({kind})" for path, kind in self.overflows())
            log.logger().warning(
                _STUCK.format(float(loss_scale()), int(loss_scale.stuck_steps()), found)
            )
        self._told = step

    def total(self):
        """Return the number of skipped steps, an int64 scalar tensor."""
        return scale_variables.read_or_zero(self.numbers)[0]

    def in_a_row(self, counter):
        """Return how many of the last steps were skipped, an int64 scalar tensor.

        Args:
          counter: integer variable, the optimizer's `iterations`.
        """
        _, in_a_row, position = tf.unstack(scale_variables.read_or_zero(self.numbers))
        now = tf.cast(tf.convert_to_tensor(counter), tf.int64)
        return tf.where(tf.equal(position, now + 1), in_a_row, 0)

    def overflows(self):
        """Return a list of `Overflow` for the last skipped step. In eager code only."""
        step = int(self.total())
        read = [(record.paths, record.numbers.numpy()) for record in self._records]
        return [
            Overflow(path, _KINDS[kind])
            for paths, (of_step, *kinds) in read
            if of_step == step
            for path, kind in zip(paths, kinds)
            if kind
        ]
