"""One step of training, from scaled gradients to the next loss scale.

    unscale -> aggregate -> are all finite? -> apply or skip -> next scale

The order is the same for every optimizer, loss scale, strategy and mode. `Step.run` makes the
first two calls, and `Step._finish` the other three.

*Who runs them.* Each replica unscales and aggregates its own gradients. Under a strategy whose
replicas must merge, such as MirroredStrategy, they then meet in one `merge_call`: `_finish`
runs once for all of them, and within it each replica updates its variables. Without such a
strategy, and where XLA compiles a step for several GPUs, each replica runs `_finish` itself.

*When the division happens.* In eager code and on several replicas, `unscale` divides. In a
traced step on one replica, `unscale` only pairs each dense gradient with its divisor (a
`gradients.Quotient`). The check reads the gradient as it is, which proves that the quotient is
finite, and the branch that applies divides next to the update, where the division is free.
"""

import numbers
from typing import Any, NamedTuple

import tensorflow as tf

from tf_lso.frameworks import tf_private
from tf_lso.frameworks.graphs import after, in_graph_of_tensorflow_1, known_operations
from tf_lso.scaling import fast
from tf_lso.scaling import finite as finite_lib
from tf_lso.scaling import gradients as gradients_lib


class Sums(NamedTuple):
    """The gradients of a step after the aggregation, which differ only in sparse gradients.

    Fields:
      to_check: list of gradients. In slices, rows with equal indices are summed.
      to_apply: list of gradients. Inner optimizers that clip each row and then sum the rows
        themselves get the rows before the summation.
    """

    to_check: list[Any]
    to_apply: list[Any]


class Step(NamedTuple):
    """One training step of one optimizer, on the replica that calls `run`.

    Fields:
      family: the adapter to the inner optimizer.
      loss_scale: the optimizer's `LossScale`.
      skipped: the optimizer's `Skipped`, which counts the skipped steps.
      unscaled: the `calls.Returned` that knows what `get_unscaled_gradients` returned.
      divisor: the loss scale, by which all other gradients are divided, or None.
      update: function of gradients and variables that runs the inner optimizer.
      is_aggregated: whether the caller has summed the gradients over the replicas.
      variables: list with the variable of each gradient.
    """

    family: Any
    loss_scale: Any
    skipped: Any
    unscaled: Any
    divisor: Any
    update: Any
    is_aggregated: bool
    variables: list[Any]

    def run(self, gradients):
        """Perform the step.

        Args:
          gradients: list of this replica's gradients. The list must not contain None.

        Returns:
          In eager mode None. In a `tf.function` a scalar bool tensor that is True if the
          step was applied. In a graph of TensorFlow 1 an op that runs the whole step.
        """
        gradients = self._unscale(gradients)
        sums, variables = self._aggregate(gradients)
        return self._replace(variables=variables)._finish_on_all_replicas(sums)

    def _finish(self, sums):
        finite, kinds = self._are_all_finite(sums)
        applied = self._apply_or_skip(finite, kinds, sums)
        moved = self._next_scale(finite, applied)
        return self._result(applied, moved)

    # --- Unscale.

    def _unscale(self, gradients):
        """Divide the gradients that are still scaled, or pair them with their divisor."""
        divides_later = (
            not tf.executing_eagerly()
            and tf.distribute.get_strategy().num_replicas_in_sync == 1
        )
        results, now = list(gradients), []
        for place, (gradient, variable) in enumerate(zip(gradients, self.variables)):
            is_next_value = gradients_lib.overwrites(variable)
            if self.unscaled.has(gradient):
                if is_next_value:
                    # A float8 layer of Keras 3 passes the next value of this variable as its
                    # "gradient". `get_unscaled_gradients`, which receives no variables, has
                    # divided it like a gradient. Undo the division.
                    scale = self.loss_scale._current()
                    results[place] = gradient * tf.cast(scale, gradient.dtype)
                elif divides_later:
                    results[place] = self.unscaled.quotient(gradient) or gradient
            elif self.divisor is not None and not is_next_value:
                is_dense = (
                    isinstance(gradient, tf.Tensor) and gradient.dtype.is_floating
                )
                if divides_later and is_dense:
                    results[place] = gradients_lib.Quotient(gradient, self.divisor)
                else:
                    now.append(place)
        if now:
            divided = [results[place] for place in now]
            divided = gradients_lib.unscale_gradients(divided, self.divisor)
            for place, gradient in zip(now, divided):
                results[place] = gradient
        return results

    # --- Aggregate.

    def _aggregate(self, gradients):
        """Sum over the replicas, unless the caller has, and over duplicate rows.

        Return the `Sums`, and the list of their variables, whose order may have changed.
        """
        variables = self.variables
        if not self.is_aggregated:
            gradients, variables = self.family.aggregate(gradients, variables)
        summed = gradients_lib.with_summed_rows(gradients)
        to_apply = gradients if self.family.sums_rows else summed
        return Sums(summed, to_apply), variables

    def _finish_on_all_replicas(self, sums):
        if tf_private.needs_no_merge_call():
            return self._finish(sums)
        # The update of an optimizer merges the replicas. In a branch of a conditional,
        # TensorFlow allows such a merge only if the code around the branch is in cross-replica
        # context. In this context the gradients are per-replica values.
        replica = tf.distribute.get_replica_context()
        return replica.merge_call(lambda _, sums: self._finish(sums), args=(sums,))

    # --- Are all finite?

    def _are_all_finite(self, sums):
        """Return the `finite.Verdict` of the loss scale, the same for all replicas."""
        # If the replicas have equal gradients, it is enough to check those of one replica.
        # Gradients that the caller has aggregated may differ. A "gradient" that overwrites its
        # variable may differ too, since such gradients are never summed.
        is_summed_here = not self.is_aggregated and self.family.aggregates_in_full
        are_equal = is_summed_here and not any(
            map(gradients_lib.overwrites, self.variables)
        )
        return self.loss_scale._judge(sums.to_check, are_equal)

    # --- Apply or skip.

    def _apply_or_skip(self, finite, kinds, sums):
        """Update the variables or leave them unchanged. Return whether the step was applied."""
        if tf.executing_eagerly():
            finite = bool(finite)
        # In eager code `finite` is a Python bool. With a fixed scale it is always True.
        if isinstance(finite, numbers.Integral):
            return self._apply(sums) if finite else self._skip(kinds, sums)
        # `fast.either` does what `tf.cond` does.
        return fast.either(
            finite,
            lambda: self._apply(sums),
            fast.seldom(lambda: self._skip(kinds, sums)),
            of=sums.to_apply,
        )

    def _apply(self, sums):
        gradients = gradients_lib.divided(sums.to_apply)
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

    def _skip(self, kinds, sums):
        """Record which gradients overflowed, count the step, and return False as a tensor."""
        if kinds is None:  # a user's own `LossScale` has judged
            kinds = finite_lib.kinds_on_any_replica(sums.to_check)
        noted = self.skipped.note_skipped(kinds, self.variables)
        # An update adds 1 to the optimizer's `iterations`. A skipped step has no update, so
        # count the step here.
        counted = self.family.count_skipped()
        return after([*noted, *counted], False)

    # --- Next scale.

    def _next_scale(self, finite, applied):
        with tf.control_dependencies(known_operations([applied])):
            return self.loss_scale._advance(finite)

    def _result(self, applied, moved):
        if tf.executing_eagerly():
            return None
        with tf.control_dependencies(known_operations([moved])):
            applied = tf.identity(applied)
        return applied.op if in_graph_of_tensorflow_1() else applied
