"""The methods of TensorFlow 2.0-2.15 that every face shares.

A face adds what differs between optimizer families: how to build, aggregate, apply and
count, and what of the surface the family's own optimizers lack.
"""

import tensorflow as tf

from tf_lso.optimizers import attributes, checks
from tf_lso.scaling import finite as finite_lib
from tf_lso.scaling import gradients as gradients_lib
from tf_lso.scaling import protocol as protocol_lib
from tf_lso.scaling import step as step_lib

_FLOAT16_MAX = 65504.0

# AutoGraph would rewrite this package in every tf.function that calls it, which takes
# time and finds nothing to convert.
_not_converted = tf.autograph.experimental.do_not_convert


class Surface(attributes.Attributes):
    """What a program of TensorFlow 2.0-2.15 calls on a loss-scaled optimizer."""

    # --- Scaling and unscaling.

    @_not_converted
    def get_scaled_loss(self, loss):
        """Multiply the loss by the loss scale.

        Call it inside the `tf.GradientTape`, and `get_unscaled_gradients` on the
        gradients of what it returns. `minimize` does both.

        Args:
          loss: tensor of any shape and float dtype, or a callable without arguments
            that returns one.

        Returns:
          A tensor of the loss's shape and dtype, or a callable that returns it. A
          float16 loss overflows where the product exceeds 65504: cast it to float32
          before.

        Raises:
          TypeError: if `loss` is neither a tensor nor callable.
          RuntimeError: if `scale_loss` was called in the same step.

        Example:

        >>> import tensorflow as tf
        >>> import tf_lso
        >>> opt = tf_lso.LossScaleOptimizer(
        ...     tf.keras.optimizers.SGD(0.1), initial_scale=4)
        >>> float(opt.get_scaled_loss(tf.constant(1.5)))
        6.0

        Source: TensorFlow 2.0-2.15.
        """
        if callable(loss) and not hasattr(loss, "dtype"):
            self._protocol.scaled(protocol_lib.LEGACY)
            return lambda: self._scaled(loss())
        scaled = self._scaled(loss)
        self._protocol.scaled(protocol_lib.LEGACY)
        return scaled

    def _check_loss(self, loss):
        if not hasattr(loss, "dtype"):
            raise TypeError(
                "'loss' must be a tensor or a callable that returns one, but got: "
                f"{loss!r}. Convert it with tf.convert_to_tensor()."
            )

    def _scaled(self, loss):
        self._check_loss(loss)
        scaled = gradients_lib.scale_loss(loss, self.loss_scale)
        if loss.dtype == tf.float16 and (
            not tf.executing_eagerly()
            or tf.reduce_any(
                tf.abs(tf.cast(loss, tf.float32)) * self.loss_scale > _FLOAT16_MAX
            )
        ):
            self._once.warn(
                "A float16 loss was scaled, and stays float16: where it exceeds 65504 "
                "after scaling it becomes inf and the step is skipped. Cast the loss to "
                "float32 before get_scaled_loss()."
            )
        return scaled

    @_not_converted
    def get_unscaled_gradients(self, grads):
        """Divide gradients by the loss scale.

        Args:
          grads: iterable of tensors of any float dtype, `tf.IndexedSlices` and None.

        Returns:
          A list of the same length, kinds and dtypes; None stays None. The division
          is done in float32 or wider.

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
        grads = gradients_lib.unscale_gradients(grads, self.loss_scale)
        self._protocol.unscaled()
        return grads

    # --- Steps.

    @_not_converted
    def apply_gradients(
        self,
        grads_and_vars,
        name=None,
        experimental_aggregate_gradients=True,
        skip_gradients_aggregation=False,
    ):
        """Apply gradients, or skip the step if they are not finite.

        Sums the gradients over the replicas, then on one verdict for all replicas
        lets the inner optimizer update the variables or leaves them, counts the step
        and moves the loss scale. Gradients whose loss `scale_loss` scaled are unscaled
        before.

        Args:
          grads_and_vars: iterable of (gradient, variable) pairs. A None gradient
            leaves its variable out; an empty iterable does nothing.
          name: name for the operations.
          experimental_aggregate_gradients: whether to sum over the replicas. If False
            the caller has done so.
          skip_gradients_aggregation: the opposite, as TensorFlow 2.11-2.15 named it.

        Returns:
          In eager mode None; in a function a scalar bool tensor, whether the step was
          applied; in a TensorFlow 1 graph an op that does the step.

        Raises:
          ValueError: in a cross-replica context, under an unsupported strategy, or if
            no variable has a gradient.

        Source: TensorFlow 2.0-2.15.
        """
        grads, variables = checks.unzip(grads_and_vars)
        aggregate = experimental_aggregate_gradients and not skip_gradients_aggregation
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
        unscale = self._protocol.apply()
        forgotten = self._protocol.forgotten()
        if forgotten:
            self._once.warn(forgotten)
        if not tf.executing_eagerly():
            self.__dict__["_traced"] = True
        return step_lib.apply_step(
            self,
            list(grads),
            list(variables),
            unscale=unscale,
            aggregate=aggregate,
            name=name,
        )

    def minimize(self, loss, var_list, grad_loss=None, name=None, tape=None):
        """Compute gradients of the loss and apply them.

        Args:
          loss: callable without arguments that returns a scalar tensor, or the tensor,
            with the tape that recorded it.
          var_list: list of variables, or a callable that returns it.
          grad_loss: gradient of the loss, in place of ones.
          name: name for the operations.
          tape: `tf.GradientTape` that recorded `loss`, needed for a tensor.

        Returns:
          What `apply_gradients` returns.

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

    def compute_gradients(self, loss, var_list, tape=None):
        """Compute unscaled gradients of the loss: the first half of `minimize`.

        Args:
          loss, var_list, tape: as for `minimize`.

        Returns:
          A list of (gradient, variable) pairs.
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
        with tape:
            loss = self.get_scaled_loss(loss)
        pairs = self._compute_inner(loss, var_list, grad_loss, tape)
        grads, variables = checks.unzip(pairs)
        return list(zip(self.get_unscaled_gradients(grads), variables))

    def _compute_inner(self, loss, var_list, grad_loss, tape):
        """Gradients of a scaled loss, for inner optimizers that cannot compute them."""
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

    def get_gradients(self, loss, params):
        """Return unscaled gradients of `loss`, in a graph only.

        Args:
          loss: scalar tensor of the graph.
          params: list of variables.

        Returns:
          A list of tensors.

        Raises:
          ValueError: if a variable has no gradient.
          RuntimeError: in eager mode, where there is no graph; use `compute_gradients`.

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

    def get_updates(self, loss, params):
        """Return a list of the op that minimizes `loss`, in a graph only.

        Args:
          loss, params: as for `get_gradients`.
        """
        grads = self.get_gradients(loss, params)
        return [self.apply_gradients(zip(grads, tf.nest.flatten(params)))]

    # --- Keras 3's protocol.

    @_not_converted
    def scale_loss(self, loss):
        """Multiply the loss by the loss scale, in float32 or wider.

        Gradients of the result go to `apply_gradients` or `apply` as they are, which
        unscale them. Keras 3's `fit` does this.

        Args:
          loss: tensor of any shape and float dtype, or a number.

        Returns:
          A tensor of the loss's shape, float32 where the loss is narrower.

        Raises:
          RuntimeError: if `get_scaled_loss` was called in the same step.

        Source: Keras 3.
        """
        if loss is None:
            raise TypeError("'loss' must be a tensor or a number, but got: None.")
        loss = tf.convert_to_tensor(loss)
        if loss.dtype in (tf.float16, tf.bfloat16):
            loss = tf.cast(loss, tf.float32)
        scaled = gradients_lib.scale_loss(loss, self.loss_scale)
        self._protocol.scaled(protocol_lib.KERAS3)
        return scaled

    @_not_converted
    def apply(self, grads, trainable_variables=None):
        """Apply a list of gradients, as `apply_gradients` does.

        Args:
          grads: list of gradients, one for each variable; None leaves one out.
          trainable_variables: list of variables, or None for those of `build`.

        Raises:
          ValueError: if the lengths differ, and as `apply_gradients`.

        Source: Keras 3.
        """
        grads = checks.as_list("grads", grads)
        if trainable_variables is None:
            trainable_variables = self._built_variables()
            if grads and not trainable_variables:
                raise ValueError(
                    "'trainable_variables' must be given until the optimizer is built: "
                    "pass them, or call build(trainable_variables) before."
                )
        variables = checks.as_list("trainable_variables", trainable_variables)
        if len(grads) != len(variables):
            raise ValueError(
                f"'grads' has {len(grads)} elements but there are {len(variables)} "
                "variables. Pass one gradient a variable, None where there is none."
            )
        self._apply(grads, variables, aggregate=True)

    @_not_converted
    def check_finite(self, grads):
        """Return whether all of this replica's gradients are finite.

        Args:
          grads: list of tensors, `tf.IndexedSlices` or None, which is ignored.

        Returns:
          A scalar bool tensor.

        Source: Keras 3.
        """
        return finite_lib.all_finite(list(grads))

    def stateless_apply(self, optimizer_variables, grads, trainable_variables):
        """Raise ValueError: TensorFlow optimizers hold their state in variables.

        Source: Keras 3, whose TensorFlow optimizers raise the same.
        """
        raise ValueError(
            "stateless_apply is not supported with the TensorFlow backend, whose "
            "optimizers hold their state in variables. Use apply() or apply_gradients()."
        )

    def finalize_variable_values(self, var_list):
        """Overwrite variables by their averages where the inner optimizer has them.

        Args:
          var_list: list of model variables.
        """
        finalize = getattr(self.inner_optimizer, "finalize_variable_values", None)
        if finalize is not None:
            finalize(var_list)

    # --- State.

    def get_weights(self):
        """Return all state as a list of arrays.

        The variables of the inner optimizer come first, as in TensorFlow 2.4-2.15, then
        the loss scale and its count, which those versions left out.
        """
        return [
            checks.raw(v).numpy() for v in (*self.weights, *self._scale_variables())
        ]

    def set_weights(self, weights):
        """Set all state from what `get_weights` returned.

        Args:
          weights: list of arrays; a list without the loss scale and its count, as
            TensorFlow 2.4-2.15 returned, leaves these two as they are.

        Raises:
          ValueError: if the number of arrays or a shape does not fit; nothing is set.
        """
        weights = checks.as_list("weights", weights)
        own = self._scale_variables()
        variables = [*self.weights, *own]
        if len(weights) not in (len(variables), len(variables) - len(own)):
            raise ValueError(
                f"'weights' has {len(weights)} arrays, but {type(self).__name__} has "
                f"{len(variables)} ({len(variables) - len(own)} without the loss scale). "
                "Build the optimizer before, on the same variables."
            )
        values = [
            checks.value_for(variable, array)
            for variable, array in zip(variables, weights)
        ]
        for variable, value in zip(variables, values):
            variable.assign(value)

    def _scale_variables(self):
        return [variable for _, variable in self.loss_scale_state.named_variables()]

    def get_config(self):
        """Return a dict from which `from_config` makes an equal optimizer.

        It holds no state: the loss scale starts at `initial_scale` again.
        """
        config = {
            "inner_optimizer": self._serialize_inner(),
            "dynamic": self.dynamic,
            "initial_scale": self.initial_scale,
            "dynamic_growth_steps": self.dynamic_growth_steps,
        }
        if self.__dict__.get("_own_name") is not None:
            config["name"] = self.name
        if self.dynamic:
            limits = self.loss_scale_state.get_config()
            for ours, theirs in (
                ("min_scale", "min_loss_scale"),
                ("max_scale", "max_loss_scale"),
            ):
                if theirs in limits:
                    config[ours] = limits[theirs]
        return config

    def _unchecked(self, variables):
        """Those of `variables` that no step has had yet; refuses what is wrong."""
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
