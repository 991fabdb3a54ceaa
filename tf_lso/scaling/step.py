"""One step of training, from scaled gradients to the next loss scale.

unscale -> aggregate -> sum duplicate rows -> finite? -> apply or skip -> next scale

The order is the same for every optimizer and every loss scale. `Step.run` performs the
first three stages on each replica. `Step._finish` performs the other stages once for all
replicas.
"""

import numbers
from typing import Any, NamedTuple

import tensorflow as tf

from tf_lso.frameworks import tf_private
from tf_lso.frameworks.graphs import after, in_graph_of_tensorflow_1, known_operations
from tf_lso.scaling import fast
from tf_lso.scaling import finite as finite_lib
from tf_lso.scaling import gradients as gradients_lib


class Step(NamedTuple):
    """One training step of one optimizer, on the replica that calls `run`."""

    # `family` is the adapter to the inner optimizer.
    family: Any
    # `loss_scale` is the optimizer's `LossScale`.
    loss_scale: Any
    # `skipped` is the optimizer's `Skipped`, which counts the skipped steps.
    skipped: Any
    # `variables` contains the variable of each gradient.
    variables: list[Any]
    # The function `unscale(gradients, variables)` returns the unscaled gradients.
    unscale: Any
    # The function `update(gradients, variables)` updates the variables, and returns the
    # result of the inner optimizer.
    update: Any
    # `is_aggregated` says whether the caller has summed the gradients over the replicas.
    is_aggregated: bool

    def run(self, gradients):
        """Perform the step.

        Args:
          gradients: list of this replica's gradients. The list must not contain None.

        Returns:
          In eager mode None. In a `tf.function` a scalar bool tensor that is True if the
          step was applied. In a graph of TensorFlow 1 an op that runs the whole step.
        """
        gradients = self.unscale(gradients, self.variables)
        gradients, variables = self._aggregate(gradients)
        # The finiteness check reads the sums of duplicate rows. But some inner optimizers
        # clip each row and then sum the rows themselves. Such an optimizer gets the gradients
        # before the summation.
        summed = gradients_lib.with_summed_rows(gradients)
        to_apply = gradients if self.family.sums_rows else summed
        # `_aggregate` may have changed the order of the gradients. So replace `self.variables`
        # by the variables in the same order as the gradients.
        step = self._replace(variables=variables)
        return step._in_common(summed, to_apply)

    def _aggregate(self, gradients):
        """Sum the gradients over the replicas, unless the caller has summed them already.

        Return the list of gradients and the list of their variables.
        """
        if self.is_aggregated:
            return gradients, self.variables
        return self.family.aggregate(gradients, self.variables)

    def _in_common(self, summed, to_apply):
        """Call `_finish`, in cross-replica context if the strategy requires this."""
        # On one device, and in a function that XLA compiles for several GPUs, each replica
        # calls `_finish` itself, without a `merge_call`.
        if tf_private.needs_no_merge_call():
            return self._finish(None, summed, to_apply)
        # Otherwise the update of an optimizer merges the replicas. In a branch of a
        # conditional, TensorFlow allows such a merge only if the code around the branch is in
        # cross-replica context. In this context the gradients are per-replica values.
        replica = tf.distribute.get_replica_context()
        return replica.merge_call(self._finish, args=(summed, to_apply))

    def _finish(self, strategy, summed, to_apply):
        """Check the gradients, apply or skip the step, and set the next scale."""
        # `merge_call` passes the strategy, but this method does not need the strategy.
        del strategy
        verdict = self.loss_scale._judge(summed, self._replicas_have_equal_gradients())
        applied = self._apply_or_skip(verdict, summed, to_apply)
        with tf.control_dependencies(known_operations([applied])):
            moved = self.loss_scale._advance(verdict.finite)
        return self._result(applied, moved)

    def _replicas_have_equal_gradients(self):
        """Return whether all replicas have equal gradients.

        If so, it is enough to check the gradients of one replica.
        """
        # Gradients that the caller has aggregated may differ between replicas. A "gradient"
        # that overwrites its variable may differ too, since such gradients are never
        # summed.
        is_summed_here = not self.is_aggregated and self.family.aggregates_in_full
        return is_summed_here and not any(map(gradients_lib.overwrites, self.variables))

    def _apply_or_skip(self, verdict, summed, to_apply):
        """Call `_apply` or `_skip`. Return whether the step was applied."""
        finite, kinds = verdict
        if tf.executing_eagerly():
            finite = bool(finite)
        # In eager code `finite` is a Python bool. With a fixed scale `finite` is always
        # True.
        if isinstance(finite, numbers.Integral):
            return self._apply(to_apply) if finite else self._skip(kinds, summed)
        # `fast.either` does what `tf.cond` does. The docstrings of `either`, `divided_here` and
        # `seldom` in the module `fast` say why each of these functions makes the step faster.
        return fast.either(
            finite,
            lambda: self._apply(fast.divided_here(to_apply)),
            fast.seldom(lambda: self._skip(kinds, summed)),
            of=to_apply,
        )

    def _apply(self, gradients):
        """Update the variables on every replica, and return True as a tensor."""
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

    def _skip(self, kinds, gradients):
        """Record which gradients overflowed, count the step, and return False as a tensor."""
        # `kinds` says which gradients contain infinity or NaN. A user's own subclass of
        # `LossScale` does not compute this, so compute it here.
        if kinds is None:
            kinds = finite_lib.kinds_on_any_replica(gradients)
        noted = self.skipped.note_skipped(kinds, self.variables)
        # An update adds 1 to the optimizer's `iterations`. A skipped step has no update, so
        # count the step here.
        counted = self.family.count_skipped()
        return after([*noted, *counted], False)

    def _result(self, applied, moved):
        if tf.executing_eagerly():
            return None
        moved = [] if moved is None else known_operations([moved])
        with tf.control_dependencies(moved):
            applied = tf.identity(applied)
        return applied.op if in_graph_of_tensorflow_1() else applied
