"""What an optimizer knows of the steps that it skipped; only such a step writes it."""

import functools
import operator
import weakref
from typing import Any, NamedTuple

import tensorflow as tf

from tf_lso import graphs, log
from tf_lso.scaling import fast
from tf_lso.scaling import gradients as gradients_lib

_INF, _NAN = 1, 2
_MOST = 5  # variables that a warning names
_STUCK = (
    "The gradients were not finite although the loss scale is at its minimum, {} (steps "
    "in a row: {}). Not finite: {}. Scaling cannot help: look for NaN or infinity in the "
    "data and the loss, lower the learning rate, or set `min_scale` lower. "
    "See `tf-lso help stuck`"
)
_KINDS = {_INF: "inf", _NAN: "nan", _INF | _NAN: "inf, nan"}


class Overflow(NamedTuple):
    """A variable whose gradient was not finite."""

    variable: str  # the variable's path
    kind: str  # what its gradient held: "inf", "nan" or "inf, nan"


# Loss scale -> what is noted of its optimizers. Programs may share one.
_users: Any = weakref.WeakKeyDictionary()


@fast.packed(in_graphs=True)
def _bits(tensors):
    """Whether each tensor holds infinity, and NaN: a list of bools [tensors, 2]."""
    axis, bits = tf.constant(0), []
    for vectors in gradients_lib.real_vectors(tensors):
        for test in (tf.math.is_inf, tf.math.is_nan):
            found = [tf.reduce_any(test(vector), axis) for vector in vectors]
            bits.append(functools.reduce(operator.or_, found or [tf.constant(False)]))
    return [tf.reshape(tf.stack(bits), [-1, 2])]


def _kinds(gradients):
    """Return what each gradient holds on any replica, an int64 vector of `_KINDS`."""
    copies = map(tf.distribute.get_strategy().experimental_local_results, gradients)
    values = gradients_lib.values_of([copy for one in copies for copy in one])
    bits = tf.reshape(tf.concat(_bits(values), axis=0), [len(gradients), -1, 2])
    bits = tf.cast(tf.reduce_any(bits, axis=1), tf.int64)
    return tf.linalg.matvec(bits, tf.constant([_INF, _NAN], tf.int64))


def _path(variable):
    path = gradients_lib.attribute_of(variable, "path")
    return path or variable.name.removesuffix(":0")


class Skipped:
    """Counts the skipped steps of one optimizer, and notes which gradients overflowed.

    A checkpoint or a program may set the optimizer's `iterations` back to what it was
    after a skipped step. So the count of the loss scale, which each finite step moves,
    says whether the last step was skipped. It does not if optimizers share the scale, or
    if it judges in its own way: then `iterations` alone does.
    """

    def __init__(self, loss_scale):
        self._loss_scale = loss_scale
        _users.setdefault(loss_scale, weakref.WeakSet()).add(self)
        # The skipped steps, how many of them were the last in a row, and 1 + the
        # optimizer's `iterations` after the last of them.
        self._numbers = graphs.unsaved_variable([0, 0, 0], "skipped_steps")
        # What each variable's gradient held in the last skipped step, of `_KINDS`. Legacy
        # optimizers may get further variables; then it grows.
        self._overflowed = graphs.unsaved_variable([], "overflowed", [None])
        self._variables = []  # kept, so that no other variable gets the id of one
        self._places = {}  # id of a variable -> its place in `_overflowed`
        self._untold = False
        self._told = 0  # the skipped steps when `tell` was called last

    def knows(self, variables):
        """Return whether `watch` was called with all these variables."""
        return all(id(variable) in self._places for variable in variables)

    def watch(self, variables):
        """Make room for what is noted of the variables. Call this before the step."""
        new = [v for v in variables if id(v) not in self._places]
        self._variables += new
        self._places = {id(v): place for place, v in enumerate(self._variables)}
        with tf.init_scope():
            if new and tf.executing_eagerly():
                self._overflowed.assign(tf.pad(self._overflowed, [[0, len(new)]]))

    def variables(self):
        """Return {name: variable} of all that traced steps use."""
        return {"skipped_steps": self._numbers, "overflowed": self._overflowed}

    def note(self, gradients, variables, counter, count):
        """Note a skipped step, in its branch; return a list of ops.

        `watch` knows the variables. `count()` moves the counter, the `iterations`, as the
        optimizer does for a skipped step, and returns a list of ops.
        """
        total, loss_scale = self.total() + 1, self._loss_scale
        if loss_scale.takes_verdicts:  # the scale moves after this
            in_a_row, stuck = tf.unstack(loss_scale.variables.numbers_if_skipped())
        else:  # the scale has moved
            in_a_row, stuck = self.in_a_row(counter) + 1, loss_scale.stuck_steps()
        with tf.control_dependencies(graphs.known_operations([total, in_a_row, stuck])):
            counted = count()
        with tf.control_dependencies(graphs.known_operations(counted)):
            after = tf.cast(tf.convert_to_tensor(counter), tf.int64)
        kinds = _kinds(gradients)
        if graphs.in_xla():
            self._untold = True  # XLA cannot print; `tell` does it later
        else:
            self._warn(stuck, variables, kinds)
        numbers = self._numbers.assign([total, in_a_row, after + 1], read_value=False)
        # `_overflowed` may have grown since this was traced; XLA keeps its shape.
        is_fixed = graphs.in_tensorflow_1()
        size = len(self._variables) if is_fixed else tf.size(self._overflowed)
        places = [[self._places[id(variable)]] for variable in variables]
        overflowed = tf.scatter_nd(places, kinds, [size])
        overflowed = self._overflowed.assign(overflowed, read_value=False)
        return [*counted, numbers, overflowed]

    def _warn(self, stuck, variables, kinds):
        # At 1, 10, 100, ... so that a lost run does not fill the log.
        is_told = tf.reduce_any(tf.equal(stuck, [10**power for power in range(19)]))
        names = tf.gather(["", *_KINDS.values()], kinds)
        texts = tf.strings.join([[_path(v) for v in variables], " (", names, ")"])
        found = tf.boolean_mask(texts, kinds > 0)[:_MOST]
        found = tf.strings.reduce_join(found, separator=", ")
        graphs.warn(is_told, _STUCK, self._loss_scale(), stuck, found)

    def tell(self):
        """Warn of a stuck scale that a step under XLA could not tell of. Eagerly."""
        if not self._untold or not tf.executing_eagerly():
            return
        total, stuck = int(self.total()), int(self._loss_scale.stuck_steps())
        if total != self._told and stuck:
            found = ", ".join(f"{path} ({kind})" for path, kind in self.overflows())
            log.logger().warning(_STUCK.format(float(self._loss_scale()), stuck, found))
        self._told = total

    def total(self):
        """Return the number of skipped steps, an int64 scalar tensor."""
        return graphs.read_or_zero(self._numbers)[0]

    def in_a_row(self, counter):
        """Return how many of the last steps were skipped; `counter` is `iterations`."""
        _, in_a_row, position = tf.unstack(graphs.read_or_zero(self._numbers))
        now = tf.cast(tf.convert_to_tensor(counter), tf.int64)
        is_last = tf.equal(position, now + 1)
        if self._loss_scale.takes_verdicts and len(_users[self._loss_scale]) == 1:
            is_last &= self._loss_scale.variables.numbers_in_a_row()[0] > 0
        return tf.where(is_last, in_a_row, 0)

    def overflows(self):
        """Return a list of `Overflow` for the last skipped step. In eager code only."""
        kinds = zip(self._variables, self._overflowed.numpy())
        return [Overflow(_path(v), _KINDS[kind]) for v, kind in kinds if kind]
