"""One step of training, from scaled gradients to the next loss scale.

    unscale -> aggregate -> are all finite? -> apply or skip -> next scale

The stages are the same for every optimizer, loss scale, strategy and mode. `Step.run` performs
the first two, and then has `Step._finish` perform the other three.

*Who runs them.* Each replica unscales its own gradients and calls `_aggregate`, which sums them
over all replicas. Under a strategy whose replicas must merge, such as MirroredStrategy, the
replicas then meet in one `merge_call`: `_finish` runs once for all of them, and within it each
replica updates its variables. Otherwise each replica runs `_finish` itself: where there is one
replica, and where XLA compiles a step for several GPUs.

*When the division happens.* The divisor is fixed by `get_unscaled_gradients`, or when the step
begins. The division itself may come later:

- In eager code, and on several replicas, nothing is divided late: `get_unscaled_gradients`
  divides its gradients at once, and `_unscale` divides those that are still scaled.
- In a traced step on one replica, each dense gradient stays a `gradients.Quotient`, which is an
  undivided gradient and its divisor. The check reads the undivided gradients, and the branch
  that applies the gradients divides them. Sparse gradients are divided at once.
"""

import numbers
from typing import Any, NamedTuple

import tensorflow as tf

from tf_lso.frameworks import tf_private
from tf_lso.frameworks.graphs import (
    in_graph_of_tensorflow_1,
    known_operations,
    value_after,
)
from tf_lso.scaling import fast
from tf_lso.scaling import finite as finite_lib
from tf_lso.scaling import gradients as gradients_lib


class Sums(NamedTuple):
    """The gradients of a step, summed over the replicas, in two lists.

    The lists differ only in sparse gradients. In `to_check`, rows with equal indices are
    summed. In `to_apply`, they are not summed if the inner optimizer clips each row and then
    sums the rows itself.
    """

    to_check: list[Any]
    to_apply: list[Any]


class Step(NamedTuple):
    """One training step of one optimizer, on the replica that calls `run`.

    `unscaled_gradients` knows the gradients that `get_unscaled_gradients` returned. `divisor`
    is the value of the loss scale, by which the other gradients must be divided, or None if
    they are not scaled. `is_aggregated` says whether the caller has already summed the
    gradients over the replicas.
    """

    family: Any
    loss_scale: Any
    skipped: Any
    unscaled_gradients: Any
    divisor: Any
    update: Any
    is_aggregated: bool
    variables: list[Any]

    def run(self, gradients):
        """Perform the step with this replica's gradients, none of which may be None.

        In eager mode return None. In a `tf.function` return a scalar bool tensor that is True
        if the step was applied. In a graph of TensorFlow 1 return an op that runs the step.
        """
        gradients = self._unscale(gradients)
        sums, variables = self._aggregate(gradients)
        return self._replace(variables=variables)._finish_merged(sums)

    def _finish(self, sums):
        finite, kinds = self._are_all_finite(sums)
        applied = self._apply_or_skip(finite, kinds, sums)
        advanced = self._advance_scale(finite, applied)
        return self._result(applied, advanced)

    def _unscale(self, gradients):
        keeps_quotients = gradients_lib.are_divided_late()
        results, to_divide = list(gradients), []
        for index, (gradient, variable) in enumerate(zip(gradients, self.variables)):
            is_next_value = gradients_lib.overwrites(variable)
            if self.unscaled_gradients.has(gradient):
                if is_next_value:
                    # `get_unscaled_gradients`, which receives no variables, has divided the
                    # value like a gradient. Undo the division.
                    scale = self.loss_scale._current()
                    results[index] = gradient * tf.cast(scale, gradient.dtype)
                elif keeps_quotients and isinstance(gradient, tf.Tensor):
                    quotient = self.unscaled_gradients.quotient(gradient)
                    results[index] = gradient if quotient is None else quotient
            elif self.divisor is not None and not is_next_value:
                quotient = gradients_lib.quotient_of(gradient, self.divisor)
                if keeps_quotients and quotient is not None:
                    results[index] = quotient
                else:
                    to_divide.append(index)
        divided = [results[index] for index in to_divide]
        divided = gradients_lib.unscale_gradients(divided, self.divisor)
        for index, gradient in zip(to_divide, divided):
            results[index] = gradient
        return results

    def _aggregate(self, gradients):
        """Return the `Sums`, and the list of their variables, whose order may have changed."""
        variables = self.variables
        if not self.is_aggregated:
            gradients, variables = self.family.aggregate(gradients, variables)
        summed = gradients_lib.with_summed_rows(gradients)
        to_apply = gradients if self.family.sums_rows else summed
        return Sums(summed, to_apply), variables

    def _finish_merged(self, sums):
        if tf_private.needs_no_merge_call():
            return self._finish(sums)
        # The update of an optimizer merges the replicas. In a branch of a conditional,
        # TensorFlow allows such a merge only if the code around the branch is in cross-replica
        # context.
        replica = tf.distribute.get_replica_context()
        return replica.merge_call(lambda _, sums: self._finish(sums), args=(sums,))

    def _are_all_finite(self, sums):
        # If the replicas have equal gradients, it is enough to check those of one replica.
        # Gradients that the caller has aggregated may still differ. A "gradient" that
        # overwrites its variable may differ too, since such gradients are never summed.
        is_summed_here = not self.is_aggregated and self.family.aggregates_in_full
        are_equal = is_summed_here and not any(
            map(gradients_lib.overwrites, self.variables)
        )
        return self.loss_scale._judge(sums.to_check, are_equal)

    def _apply_or_skip(self, finite, kinds, sums):
        if tf.executing_eagerly():
            finite = bool(finite)
        # A fixed scale always gives a Python bool, and users' own loss scales may give one.
        if isinstance(finite, numbers.Integral):
            return self._apply(sums) if finite else self._skip(kinds, sums)
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
        return value_after([updated, *self.skipped.note_applied()], True)

    def _apply_on_replica(self, gradients):
        return value_after([self.update(gradients, self.variables)], True)

    def _skip(self, kinds, sums):
        if kinds is None:  # a user's own `LossScale` has judged
            kinds = finite_lib.kinds_on_any_replica(sums.to_check)
        noted = self.skipped.note_skipped(kinds, self.variables)
        # An update adds 1 to `iterations`. A skipped step has no update, so count it here.
        counted = self.family.count_skipped()
        return value_after([*noted, *counted], False)

    def _advance_scale(self, finite, applied):
        with tf.control_dependencies(known_operations([applied])):
            return self.loss_scale._advance(finite)

    def _result(self, applied, advanced):
        if tf.executing_eagerly():
            return None
        with tf.control_dependencies(known_operations([advanced])):
            applied = tf.identity(applied)
        return applied.op if in_graph_of_tensorflow_1() else applied
