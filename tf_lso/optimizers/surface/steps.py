"""How gradients are applied: what is refused, then one step of `scaling.step`."""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from tf_lso import tf_private
from tf_lso.optimizers import overrides, validation
from tf_lso.optimizers import variables as variables_lib
from tf_lso.optimizers.surface.autograph import not_converted
from tf_lso.scaling import gradients as gradients_lib
from tf_lso.scaling import step as step_lib


class Steps:
    """The methods that apply gradients or skip a step."""

    @not_converted
    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[gradients_lib.Gradient, Any]],
        name: str | None = None,
        experimental_aggregate_gradients: bool = True,
        skip_gradients_aggregation: bool = False,
    ) -> tf.Tensor | tf.Operation | None:
        """Apply gradients, or skip the step if they are not finite.

        Unscales the gradients if `scale_loss` scaled their loss, and aggregates them
        over the replicas. Then one verdict holds for all replicas: if all gradients are
        finite, the inner optimizer updates the variables, else the step is skipped.
        Either way the step is counted and the loss scale moves.

        Args:
          grads_and_vars: iterable of (gradient, variable) pairs. A None gradient
            leaves its variable out; an empty iterable does nothing.
          name: name for the operations.
          experimental_aggregate_gradients: whether to aggregate over the replicas. If
            False, the caller has done so.
          skip_gradients_aggregation: the opposite, as TensorFlow 2.11-2.15 named it.

        Returns:
          None in eager mode. In a function a scalar bool tensor: whether the step was
          applied. In a TensorFlow 1 graph an op that runs the step.

        Raises:
          TypeError: if a list holds something else than gradients or variables.
          ValueError: if an element is no pair, if no variable has a gradient, if the
            optimizer was built for other variables, if a variable belongs to another
            strategy, if variables of the optimizer were made outside the scope, in a
            cross-replica context, under an unsupported strategy, or with what Keras 3
            cannot do on replicas.
          RuntimeError: if two losses with different scales or methods were scaled and
            not applied, so that nobody can know by what to unscale these gradients.

        Source: TensorFlow 2.0-2.15.
        """
        grads, variables = validation.unzip(grads_and_vars)
        aggregate = experimental_aggregate_gradients and not skip_gradients_aggregation
        if (
            self._calls_apply
            and aggregate
            and overrides.overridden(type(self), ["apply"])
        ):
            return self.apply(grads, variables)
        return self._apply(grads, variables, aggregate=aggregate, name=name)

    def _apply(
        self, grads, variables, *, aggregate, name=None, unknown_is_scaled=False
    ):
        validation.check_context()
        if not grads:
            return None
        validation.check_gradients(grads)
        validation.check_any(grads, variables)
        self._prepare_step(
            variables, [v for g, v in zip(grads, variables) if g is not None]
        )
        missing = [
            variables_lib.name_of(v) for g, v in zip(grads, variables) if g is None
        ]
        if missing:
            self._once.warn(f"Gradients do not exist for variables {missing}.")
        grads, variables = zip(
            *[
                (gradients_lib.with_dense_shape(g, v), v)
                for g, v in zip(grads, variables)
                if g is not None
            ]
        )
        grads = self._with_next_values(grads, variables)
        if self.loss_scale_state.may_skip and not self._skipped.knows(variables):
            self._once_for_all(self._skipped.watch, variables)
        divisor = self._calls.apply(
            grads, self._loss_scale, unknown_is_scaled=unknown_is_scaled
        )
        self._once.warn(self._calls.forgotten())
        if not tf.executing_eagerly():
            self.__dict__["_traced"] = True

        def step(grads):
            return step_lib.apply_step(
                self,
                self.loss_scale_state,
                self._skipped,
                list(grads),
                list(variables),
                divisor=divisor,
                is_unscaled=self._calls.unscaled_gradients.has,
                aggregate=aggregate,
                name=name,
            )

        if variables_lib.in_graph_of_tensorflow_1() and not self._returns_operations:
            # A function runs all operations with effects; such a graph runs only the result.
            return tf.function(step, autograph=False)(list(grads)).op
        return step(grads)

    @staticmethod
    def _once_for_all(make, variables):
        """Make something for variables, which the replicas share, once for all of them."""
        if tf_private.needs_no_merge_call():
            make(variables)
        else:
            tf.distribute.get_replica_context().merge_call(lambda _: make(variables))

    def _with_next_values(self, grads, variables):
        """Return `grads`, with next values of variables as they were before unscaling.

        `get_unscaled_gradients` gets no variables, so it unscales next values too.
        """
        if not any(map(gradients_lib.overwrites, variables)):
            return grads
        scales = map(self._calls.unscaled_gradients.scale_of, grads)
        return [
            g * tf.cast(scale(), g.dtype)
            if scale and gradients_lib.overwrites(v)
            else g
            for g, scale, v in zip(grads, scales, variables)
        ]

    def _unchecked(self, variables):
        """Return the variables that are new to this optimizer; refuse wrong ones."""
        unchecked = [v for v in variables if id(v) not in self._checked]
        validation.check_variables(unchecked)
        return unchecked

    def _note_checked(self, variables):
        self._checked.update({id(v): v for v in variables})
