"""The methods of TensorFlow 2.0-2.15 that every face shares.

A face adds what differs between the families: how to build, aggregate, apply and count,
and the methods that the family's own optimizers lack.
"""

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from tf_lso.optimizers import checks, overrides
from tf_lso.optimizers.surface import attributes, state
from tf_lso.optimizers.surface import keras3 as surface_keras3
from tf_lso.scaling import gradients as gradients_lib
from tf_lso.scaling import protocol as protocol_lib
from tf_lso.scaling import step as step_lib

_FLOAT16_MAX = 65504.0


class Surface(attributes.Attributes, surface_keras3.SurfaceKeras3, state.State):
    """What a program of TensorFlow 2.0-2.15 calls on a loss-scaled optimizer."""

    # --- Scaling and unscaling.

    @checks.not_converted
    def get_scaled_loss(
        self, loss: tf.Tensor | Callable[[], tf.Tensor]
    ) -> tf.Tensor | Callable[[], tf.Tensor]:
        """Multiply the loss by the loss scale.

        Call it inside the `tf.GradientTape`, and pass the gradients of the result to
        `get_unscaled_gradients`. `minimize` does both.

        Args:
          loss: tensor of any shape and float dtype, or a callable without arguments
            that returns one.

        Returns:
          A tensor of the loss's shape and dtype, or a callable that returns it. A
          float16 loss becomes inf if the product exceeds 65504, so cast it to float32
          first.

        Raises:
          TypeError: if `loss` is neither a tensor nor callable.
          RuntimeError: if the loss is scaled already, if `scale_loss` was called in the
            same step, or, while a function is traced, if other functions have scaled
            losses by `scale_loss` that were not applied.

        Example:
        >>> import tensorflow as tf
        >>> import tf_lso
        >>> opt = tf_lso.LossScaleOptimizer(
        ...     tf.keras.optimizers.SGD(0.1), initial_scale=4)
        >>> float(opt.get_scaled_loss(tf.constant(1.5)))
        6.0

        Source: TensorFlow 2.0-2.15.
        """
        self._protocol.refuse_scaled(loss, protocol_lib.LEGACY)
        scale = self._loss_scale()
        if callable(loss) and not hasattr(loss, "dtype"):

            def scaled():
                # As legacy, by the scale that is there when it is called.
                scale = self._loss_scale()
                self._protocol.scale = scale
                return self._scaled(loss(), scale)

        else:
            scaled = self._scaled(loss, scale)
        self._protocol.scaled(protocol_lib.LEGACY, scale, scaled)
        return scaled

    def _check_loss(self, loss):
        if not hasattr(loss, "dtype"):
            raise TypeError(
                "'loss' must be a tensor or a callable that returns one, but got: "
                f"{loss!r}. Convert it with tf.convert_to_tensor()."
            )

    def _scaled(self, loss, scale):
        self._check_loss(loss)
        scaled = gradients_lib.scale_loss(loss, scale)
        if loss.dtype == tf.float16 and (
            not tf.executing_eagerly()
            or tf.reduce_any(tf.abs(tf.cast(loss, tf.float32)) * scale > _FLOAT16_MAX)
        ):
            self._once.warn(
                "A float16 loss was scaled, and stays float16: if it exceeds 65504 after "
                "scaling, it becomes inf and the step is skipped. Cast the loss to "
                "float32 before get_scaled_loss()."
            )
        return scaled

    @checks.not_converted
    def get_unscaled_gradients(
        self, grads: Iterable[gradients_lib.Gradient]
    ) -> list[gradients_lib.Gradient]:
        """Divide gradients by the loss scale.

        Args:
          grads: iterable of tensors of any float dtype, `tf.IndexedSlices` and None.

        Returns:
          A list of the same length, kinds and dtypes; None stays None. The division
          is done in float32 or wider.

        Raises:
          TypeError: if `grads` is not iterable, or an element is no gradient.
          RuntimeError: if gradients are unscaled already, since this method has returned
            them; or if two losses with different scales or protocols were scaled and
            not applied, so that the scale cannot be known.

        Example:
        >>> import tensorflow as tf
        >>> import tf_lso
        >>> opt = tf_lso.LossScaleOptimizer(
        ...     tf.keras.optimizers.SGD(0.1), initial_scale=4)
        >>> [None if g is None else float(g)
        ...  for g in opt.get_unscaled_gradients([tf.constant(6.), None])]
        [1.5, None]

        Source: TensorFlow 2.0-2.15.
        """
        grads = checks.as_list("grads", grads)
        checks.refuse_nongradients(grads)
        scale = self._protocol.scale_of_gradients(grads, self._loss_scale())
        unscaled = gradients_lib.unscale_gradients(grads, scale)
        self._protocol.unscaled(unscaled, grads, scale)
        return unscaled

    def unscale(self, grads, variables, scale):
        """Return the gradients of these variables divided by a scale."""
        scaled = gradients_lib.scaled_of(grads, variables)
        unscaled = gradients_lib.unscale_gradients(scaled, scale)
        self.unscaled_gradients.note(unscaled, scaled, scale)
        return [g if u is None else u for g, u in zip(grads, unscaled)]

    @property
    def unscaled_gradients(self):
        """The gradients that were unscaled here, each with the scaled gradient."""
        return self._protocol.unscaled_gradients

    # --- Steps.

    # Whether `apply_gradients` calls an overridden `apply`, as Keras 3's does.
    _calls_apply = False

    # The methods that a user's subclass overrides.
    _overridden: frozenset[str] = frozenset()

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        overrides.prepare(cls)

    # Whether the inner optimizer returns its updates as operations of a graph.
    _returns_operations = False

    @checks.not_converted
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
            strategy, in a cross-replica context, or under an unsupported strategy.
          RuntimeError: if two losses with different scales or protocols were scaled and
            not applied, so that nobody can know by what to unscale these gradients.

        Source: TensorFlow 2.0-2.15.
        """
        grads, variables = checks.unzip(grads_and_vars)
        aggregate = experimental_aggregate_gradients and not skip_gradients_aggregation
        if self._calls_apply and "apply" in self._overridden and aggregate:
            return self.apply(grads, variables)
        return self._apply(grads, variables, aggregate=aggregate, name=name)

    def _apply(self, grads, variables, *, aggregate, name=None):
        self._check_context()
        if not grads:
            return None
        checks.refuse_nongradients(grads)
        if all(gradient is None for gradient in grads):
            raise ValueError(
                "No gradients provided for any variable: "
                f"{[checks.name_of(v) for v in variables]}. The loss does not depend on them, "
                "or was computed outside the GradientTape."
            )
        self._prepare(variables, [v for g, v in zip(grads, variables) if g is not None])
        missing = [checks.name_of(v) for g, v in zip(grads, variables) if g is None]
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
        if "get_unscaled_gradients" in self._overridden and (
            self._protocol.divisor(grads) is not None
        ):
            grads = overrides.unscaled(self, grads, variables)
        divisor = self._protocol.apply(grads)
        self._once.warn(self._protocol.forgotten())
        if not tf.executing_eagerly():
            self.__dict__["_traced"] = True

        def step(grads):
            return step_lib.apply_step(
                self,
                list(grads),
                list(variables),
                divisor=divisor,
                aggregate=aggregate,
                name=name,
            )

        if checks.in_graph_of_tensorflow_1() and not self._returns_operations:
            # A function runs all operations with effects; such a graph runs only the result.
            return tf.function(step, autograph=False)(list(grads)).op
        return step(grads)

    def _with_next_values(self, grads, variables):
        """Return `grads`, with next values of variables as they were before unscaling.

        `get_unscaled_gradients` gets no variables, so it unscales next values too.
        """
        if not any(map(gradients_lib.overwrites, variables)):
            return grads
        divided = self.unscaled_gradients.sources(grads)
        return [
            g * tf.cast(d[1](), g.dtype) if d and gradients_lib.overwrites(v) else g
            for g, d, v in zip(grads, divided, variables)
        ]

    def minimize(
        self,
        loss: tf.Tensor | Callable[[], tf.Tensor],
        var_list: Any,
        grad_loss: tf.Tensor | None = None,
        name: str | None = None,
        tape: tf.GradientTape | None = None,
    ) -> tf.Tensor | tf.Operation | None:
        """Compute gradients of the loss and apply them.

        Args:
          loss: callable without arguments that returns a scalar tensor, or the tensor
            itself together with `tape`.
          var_list: list of variables, or a callable that returns it.
          grad_loss: gradient of the loss, by default ones.
          name: name for the operations.
          tape: `tf.GradientTape` that recorded `loss`, needed for a tensor.

        Returns:
          What `apply_gradients` returns.

        Raises:
          TypeError: as `get_scaled_loss` and `apply_gradients`.
          ValueError: as `apply_gradients`, or if `loss` is a tensor without a tape.
          RuntimeError: as `get_scaled_loss`, `get_unscaled_gradients` and
            `apply_gradients`.

        Example:
        >>> import tensorflow as tf
        >>> import tf_lso
        >>> opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.25))
        >>> x = tf.Variable(1.0)
        >>> opt.minimize(lambda: x ** 2, [x])
        >>> float(x)
        0.5

        Source: TensorFlow 2.0-2.15.
        """
        pairs = self._compute_gradients(loss, var_list, grad_loss=grad_loss, tape=tape)
        return self.apply_gradients(pairs, name=name)

    def compute_gradients(
        self,
        loss: tf.Tensor | Callable[[], tf.Tensor],
        var_list: Any,
        tape: tf.GradientTape | None = None,
    ) -> list[tuple[gradients_lib.Gradient, Any]]:
        """Compute unscaled gradients of the loss: the first half of `minimize`.

        Args:
          loss: as for `minimize`.
          var_list: as for `minimize`.
          tape: as for `minimize`.

        Returns:
          A list of (gradient, variable) pairs.

        Raises:
          TypeError: as `get_scaled_loss`.
          ValueError: if `loss` is a tensor without a tape, or in a cross-replica context.
          RuntimeError: as `get_scaled_loss` and `get_unscaled_gradients`.
        """
        return self._compute_gradients(loss, var_list, tape=tape)

    def _compute_gradients(self, loss, var_list, grad_loss=None, tape=None):
        if not callable(loss) and tape is None:
            raise ValueError(
                "`tape` is required when a tensor is passed as the loss: pass the "
                f"tf.GradientTape that recorded it, or a callable. Got loss={loss!r}."
            )
        self._check_context()
        tape = tf.GradientTape() if tape is None else tape
        if not isinstance(tape, overrides.TakenGradients):
            with tape:
                loss = self.get_scaled_loss(loss)
        pairs = self._compute_inner(loss, var_list, grad_loss, tape)
        grads, variables = checks.unzip(pairs)
        return list(zip(self.get_unscaled_gradients(grads), variables))

    def _compute_inner(self, loss, var_list, grad_loss, tape):
        """Compute gradients of a scaled loss, if the inner optimizer cannot do it."""
        if callable(loss):
            with tape:
                if not callable(var_list):
                    tape.watch([checks.raw(v) for v in tf.nest.flatten(var_list)])
                loss = loss()
                if callable(var_list):
                    var_list = var_list()
        variables = tf.nest.flatten(var_list() if callable(var_list) else var_list)
        grads = tape.gradient(loss, [checks.raw(v) for v in variables], grad_loss)
        return list(zip(grads, variables))

    def get_gradients(
        self, loss: tf.Tensor, params: Any
    ) -> list[gradients_lib.Gradient]:
        """Return unscaled gradients of `loss`. For graphs only.

        Args:
          loss: scalar tensor of the graph.
          params: list of variables.

        Returns:
          A list of tensors.

        Raises:
          ValueError: if a variable has no gradient.
          RuntimeError: in eager mode, where there is no graph (use `compute_gradients`
            there), and as `get_scaled_loss`.

        Source: TensorFlow 2.0-2.15, for TensorFlow 1 graphs.
        """
        params = tf.nest.flatten(params)
        grads = tf.gradients(
            self.get_scaled_loss(loss), [checks.raw(p) for p in params]
        )
        for grad, param in zip(grads, params):
            if grad is None:
                raise ValueError(
                    f"Variable {checks.name_of(param)} has `None` for gradient."
                )
        return self.get_unscaled_gradients(grads)

    def get_updates(self, loss: tf.Tensor, params: Any) -> list[tf.Operation]:
        """Return a list with the op that minimizes `loss`. For graphs only.

        Args:
          loss: as for `get_gradients`.
          params: as for `get_gradients`.

        Raises:
          ValueError: as `get_gradients` and `apply_gradients`.
          RuntimeError: as `get_gradients` and `apply_gradients`.
        """
        grads = self.get_gradients(loss, params)
        return [self.apply_gradients(zip(grads, tf.nest.flatten(params)))]

    # --- Programs of TensorFlow 2.3-2.10 call these before `set_weights`.

    def _create_all_weights(self, var_list):
        self.build(var_list)

    _create_slots = _create_all_weights

    def _create_hypers(self):
        pass

    # --- Checks.

    def _unchecked(self, variables):
        """Return the variables that are new to this optimizer; refuse wrong ones."""
        unchecked = [v for v in variables if id(v) not in self._checked]
        checks.refuse_nonvariables(unchecked)
        strays = checks.outside_scope(unchecked)
        if strays:
            raise ValueError(
                f"The variables {strays} were created outside the scope of the strategy "
                f"{type(tf.distribute.get_strategy()).__name__}, so replicas cannot hold "
                "copies of them. Create the model in `with strategy.scope():`."
            )
        return unchecked

    def _note_checked(self, variables):
        self._checked.update({id(v): v for v in variables})

    def _check_context(self):
        if tf.distribute.in_cross_replica_context():
            raise ValueError(
                "apply_gradients() must be called in a replica context. Call it in a "
                "function that `tf.distribute.Strategy.run` runs."
            )
        checks.check_strategy()
