"""The methods of TensorFlow 2.0-2.15, and with them the whole surface."""

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from tf_lso import pages
from tf_lso.optimizers import validation
from tf_lso.optimizers import variables as variables_lib
from tf_lso.optimizers.surface import attributes, state, steps
from tf_lso.optimizers.surface import keras3 as surface_keras3
from tf_lso.optimizers.surface.autograph import not_converted
from tf_lso.scaling import calls as calls_lib
from tf_lso.scaling import gradients as gradients_lib

_FLOAT16_MAX = 65504.0


class Surface(
    steps.Steps, attributes.Attributes, surface_keras3.SurfaceKeras3, state.State
):
    """What a program of TensorFlow 2.0-2.15 calls on a loss-scaled optimizer."""

    # --- Scaling and unscaling.

    @not_converted
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
        self._calls.refuse_scaled(loss, calls_lib.LEGACY)
        scale = self._loss_scale()
        if callable(loss) and not hasattr(loss, "dtype"):

            def scaled():
                # As legacy, by the scale that is there when it is called.
                scale = self._loss_scale()
                self._calls.rescaled(scale)
                return self._scaled(loss(), scale)

        else:
            scaled = self._scaled(loss, scale)
        self._calls.scaled(calls_lib.LEGACY, scale, scaled)
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
                "float32 before get_scaled_loss(). See "
                f"{pages.troubleshooting('float16-loss')}"
            )
        return scaled

    @not_converted
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
            them; or if two losses with different scales or methods were scaled and
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
        grads = validation.as_list("grads", grads)
        validation.check_gradients(grads)
        scale = self._calls.scale_of_gradients(grads, self._loss_scale)
        unscaled = gradients_lib.unscale_gradients(grads, scale)
        self._calls.unscaled(unscaled, scale)
        return unscaled

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
        validation.check_tape(loss, tape)
        validation.check_context()
        tape = tf.GradientTape() if tape is None else tape
        with tape:
            loss = self.get_scaled_loss(loss)
        pairs = self._compute_inner(loss, var_list, grad_loss, tape)
        grads, variables = validation.unzip(pairs)
        return list(zip(self.get_unscaled_gradients(grads), variables))

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
            self.get_scaled_loss(loss), [variables_lib.raw(p) for p in params]
        )
        for grad, param in zip(grads, params):
            if grad is None:
                raise ValueError(
                    f"Variable {variables_lib.name_of(param)} has `None` for gradient."
                )
        return self.get_unscaled_gradients(grads)

    def get_updates(self, loss: tf.Tensor, params: Any) -> list[tf.Operation]:
        """Return a list with the op that minimizes `loss`. For graphs only.

        Args:
          loss: as for `get_gradients`.
          params: as for `get_gradients`.

        Returns:
          A list of one op.

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
