"""One step of training, from scaled gradients to the next loss scale.

Five calls in one order: unscale, aggregate, finite?, apply or skip, next scale.
"""

import numbers
import operator
from typing import Any, NamedTuple

import tensorflow as tf

from tf_lso import tf_private
from tf_lso.graphs import after, in_graph_of_tensorflow_1, in_xla, known_operations
from tf_lso.scaling import fast
from tf_lso.scaling import finite as finite_lib
from tf_lso.scaling import gradients as gradients_lib


class Step(NamedTuple):
    """One step of one optimizer, on the replica that calls `run`."""

    family: Any  # the adapter to the inner optimizer
    loss_scale: Any  # the optimizer's `LossScale`
    skipped: Any  # the optimizer's `Skipped`, which knows the variables
    variables: list[Any]  # the variable of each gradient
    unscale: Any  # callable: gradients -> a list of them, unscaled
    update: Any  # callable: (gradients, variables) -> what the inner optimizer returns
    aggregate: bool  # whether to sum over the replicas, which the caller has not done

    def run(self, gradients):
        """Unscale, aggregate and judge gradients; apply or skip; move the scale.

        Args:
          gradients: list of this replica's gradients, without None.

        Returns:
          None in eager mode. In a function a scalar bool tensor: whether the step was
          applied. In a TensorFlow 1 graph an op that runs the whole step.
        """
        unscaled, variables = self.unscale(gradients), self.variables
        summed = unscaled
        if self.aggregate:
            summed, variables = self.family.aggregate(unscaled, variables)
        judged = gradients_lib.with_summed_rows(summed)
        ready = summed if self.family.sums_rows else judged
        step = self._replace(variables=variables)
        if tf_private.needs_no_merge_call():
            is_again = in_xla() and all(map(operator.is_, summed, unscaled))
            return step._finish(judged, ready, gradients if is_again else None)
        # The update of an optimizer merges the replicas, and a conditional with such a
        # branch must run in cross-replica context. There gradients are per-replica values.
        return tf.distribute.get_replica_context().merge_call(
            lambda _, *merged: step._finish(*merged), args=(judged, ready)
        )

    def _finish(self, judged, ready, scaled=None):
        """Take the stages that all replicas take as one; return as `run`.

        If the `scaled` gradients are given, the branches make theirs of them once more.
        XLA would store what a branch reads, and fuses what the branch makes into its
        update. A step of ResNet-50 around a newer optimizer of tf_keras added 1.24 of
        what the framework's own wrapper adds without this, and 0.76 with it.
        """
        if self.loss_scale.takes_verdicts:
            finite = finite_lib.agreed(judged, self._are_equal())
            applied = self._apply_or_skip(judged, ready, scaled, finite)
            with tf.control_dependencies(known_operations([applied])):
                moved = self.loss_scale.variables.advance(finite)
        else:
            # It judges in its own way, and moves at once.
            moved, finite = self.loss_scale.update(judged)
            applied = self._apply_or_skip(judged, ready, scaled, finite)
        if tf.executing_eagerly():
            return None
        with tf.control_dependencies(
            [] if moved is None else known_operations([moved])
        ):
            applied = tf.identity(applied)
        return applied.op if in_graph_of_tensorflow_1() else applied

    def _are_equal(self):
        """Whether all replicas have the same gradients, so that one can judge for all."""
        is_full = self.aggregate and self.family.aggregates_in_full
        return is_full and not any(map(gradients_lib.overwrites, self.variables))

    def _apply_or_skip(self, judged, ready, scaled, finite):
        """Update the variables, or note the skipped step; return whether it was applied."""

        def here(gradients, has_rows):
            if scaled is None:
                return gradients
            unscaled = self.unscale(scaled)
            return unscaled if has_rows else gradients_lib.with_summed_rows(unscaled)

        def apply_here(gradients):
            return after([self.update(gradients, self.variables)], True)

        def apply():
            gradients = here(ready, self.family.sums_rows)
            if not tf.distribute.in_cross_replica_context():
                return apply_here(gradients)
            strategy = tf.distribute.get_strategy()
            run = strategy.extended.call_for_each_replica
            applied = run(apply_here, args=(gradients,))
            return strategy.experimental_local_results(applied)[0]

        def skip():
            counter, count = self.family.counter(), self.family.count_skipped
            gradients = here(judged, False)
            if self._are_equal():
                gradients = finite_lib.of_first_replica(gradients)
            noted = self.skipped.note(gradients, self.variables, counter, count)
            return after(noted, False)

        if tf.executing_eagerly():
            finite = bool(finite)
        # A bool is known in advance: a fixed scale never skips.
        if isinstance(finite, numbers.Integral):
            return apply() if finite else skip()
        return fast.either(finite, apply, fast.seldom(skip), of=ready)
