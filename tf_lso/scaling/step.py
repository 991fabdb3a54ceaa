"""One step of training, from scaled gradients to the next loss scale.

unscale -> aggregate -> sum duplicate rows -> finite? -> apply or skip -> next scale

`Step.run` calls the stages in this order, for every optimizer and every loss scale.
"""

import numbers
from typing import Any, NamedTuple

import tensorflow as tf

from tf_lso import tf_private
from tf_lso.graphs import after, in_graph_of_tensorflow_1, known_operations
from tf_lso.scaling import fast
from tf_lso.scaling import finite as finite_lib
from tf_lso.scaling import gradients as gradients_lib


class Step(NamedTuple):
    """One step of one optimizer, on the replica that calls `run`."""

    family: Any  # the adapter to the inner optimizer
    loss_scale: Any  # the optimizer's `LossScale`
    skipped: Any  # the optimizer's `Skipped`, which knows the variables
    variables: list[Any]  # the variable of each gradient
    unscale: Any  # function: (gradients, variables) -> unscaled gradients
    update: Any  # function: (gradients, variables) -> what the inner optimizer returns
    is_aggregated: bool  # whether the caller has summed the gradients over the replicas

    def run(self, gradients):
        """Take the step.

        Args:
          gradients: list of this replica's gradients, without None.

        Returns:
          None in eager mode. In a function a scalar bool tensor: whether the step was
          applied. In a TensorFlow 1 graph an op that runs the whole step.
        """
        gradients = self.unscale(gradients, self.variables)
        gradients, variables = self._aggregate(gradients)
        summed = gradients_lib.with_summed_rows(gradients)
        # Some optimizers clip duplicate rows as they are, and then add them up themselves.
        ready = gradients if self.family.sums_rows else summed
        return self._replace(variables=variables)._in_common(summed, ready)

    def _aggregate(self, gradients):
        """Sum the gradients over the replicas, unless the caller has done it."""
        if self.is_aggregated:
            return gradients, self.variables
        return self.family.aggregate(gradients, self.variables)

    def _in_common(self, summed, ready):
        """Take the stages in which all replicas act as one."""
        if tf_private.needs_no_merge_call():
            return self._finish(None, summed, ready)
        # The update of an optimizer merges the replicas, and a conditional with such a
        # branch must run in cross-replica context. There gradients are per-replica values.
        replica = tf.distribute.get_replica_context()
        return replica.merge_call(self._finish, args=(summed, ready))

    def _finish(self, strategy, summed, ready):
        del strategy
        finite = self.loss_scale.judge(summed, self._are_equal())
        applied = self._apply_or_skip(finite, summed, ready)
        with tf.control_dependencies(known_operations([applied])):
            moved = self.loss_scale.advance(finite)
        return self._result(applied, moved)

    def _are_equal(self):
        """Return whether all replicas have the same gradients, so one can judge for all."""
        is_summed = not self.is_aggregated and self.family.aggregates_in_full
        return is_summed and not any(map(gradients_lib.overwrites, self.variables))

    def _apply_or_skip(self, finite, summed, ready):
        """Run one of the next two methods; return whether the step was applied."""
        if tf.executing_eagerly():
            finite = bool(finite)
        if isinstance(finite, numbers.Integral):  # a fixed scale answers True
            return self._apply(ready) if finite else self._skip(summed)
        return fast.either(
            finite,
            lambda: self._apply(fast.divided_here(ready)),
            fast.seldom(lambda: self._skip(fast.divided_here(summed))),
            of=ready,
        )

    def _apply(self, gradients):
        """Update the variables on every replica; return True as a tensor."""
        if tf.distribute.in_cross_replica_context():
            strategy = tf.distribute.get_strategy()
            run = strategy.extended.call_for_each_replica
            updated = run(self._apply_on_replica, args=(gradients,))
            updated = strategy.experimental_local_results(updated)[0]
        else:
            updated = self._apply_on_replica(gradients)
        return after([updated, *self.skipped.note_applied()], True)

    def _apply_on_replica(self, gradients):
        return after([self.update(gradients, self.variables)], True)

    def _skip(self, gradients):
        """Count the step and note what overflowed; return False as a tensor."""
        if self._are_equal():
            gradients = finite_lib.of_first_replica(gradients)
        noted = self.skipped.note_skipped(gradients, self.variables)
        return after([*noted, *self.family.count_skipped()], False)

    def _result(self, applied, moved):
        if tf.executing_eagerly():
            return None
        moved = [] if moved is None else known_operations([moved])
        with tf.control_dependencies(moved):
            applied = tf.identity(applied)
        return applied.op if in_graph_of_tensorflow_1() else applied
