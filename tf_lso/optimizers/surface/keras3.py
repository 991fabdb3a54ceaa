"""The methods of Keras 3's own LossScaleOptimizer, on every face."""

from collections.abc import Iterable
from typing import Any, NoReturn

import tensorflow as tf

from tf_lso.optimizers import validation
from tf_lso.optimizers.surface.autograph import not_converted
from tf_lso.scaling import calls as calls_lib
from tf_lso.scaling import finite as finite_lib
from tf_lso.scaling import gradients as gradients_lib


class SurfaceKeras3:
    """The methods that `fit` and custom loops of Keras 3 call."""

    @not_converted
    def scale_loss(self, loss: tf.Tensor | float) -> tf.Tensor:
        """Multiply the loss by the loss scale, in float32 or wider.

        Pass the gradients of the result to `apply_gradients` or `apply`, which unscale
        them. Keras 3's `fit` does this.

        Args:
          loss: tensor of any shape and float dtype, or a number.

        Returns:
          A tensor of the loss's shape, and of its dtype or float32 if that is wider.

        Raises:
          TypeError: if `loss` is None.
          RuntimeError: if the loss is scaled already, if `get_scaled_loss` was called in
            the same step, or, while a function is traced, if other functions have scaled
            losses by `get_scaled_loss` that were not applied.

        Example:
        >>> import tensorflow as tf
        >>> import tf_lso
        >>> opt = tf_lso.LossScaleOptimizer(tf.keras.optimizers.SGD(0.25))
        >>> x = tf.Variable(1.0)
        >>> with tf.GradientTape() as tape:
        ...     scaled_loss = opt.scale_loss(x ** 2)
        >>> opt.apply_gradients(zip(tape.gradient(scaled_loss, [x]), [x]))
        >>> float(x)
        0.5

        Source: Keras 3.
        """
        if loss is None:
            raise TypeError("'loss' must be a tensor or a number, but got: None.")
        self._refuse_in_fit()
        self._calls.refuse_scaled(loss, calls_lib.KERAS3)
        loss = tf.convert_to_tensor(loss)
        if loss.dtype in (tf.float16, tf.bfloat16):
            loss = tf.cast(loss, tf.float32)
        scale = self._loss_scale()
        scaled = gradients_lib.scale_loss(loss, scale)
        self._calls.scaled(calls_lib.KERAS3, scale, scaled)
        return scaled

    @not_converted
    def apply(
        self,
        grads: Iterable[gradients_lib.Gradient],
        trainable_variables: Iterable[Any] | None = None,
    ) -> None:
        """Apply a list of gradients, as `apply_gradients` does.

        Args:
          grads: list of gradients, one for each variable; None leaves one out.
          trainable_variables: list of variables, or None for those of `build`.

        Raises:
          TypeError: as `apply_gradients`, or if an argument is no list.
          ValueError: as `apply_gradients`, if the lengths differ, or if the optimizer is
            not built and no variables are given.
          RuntimeError: as `apply_gradients`.

        Source: Keras 3.
        """
        grads = validation.as_list("grads", grads)
        if trainable_variables is None:
            trainable_variables = self._built_variables()
            if grads and not trainable_variables:
                raise ValueError(
                    "'trainable_variables' must be given until the optimizer is built: "
                    "pass them, or call build(trainable_variables) before."
                )
        variables = validation.as_list("trainable_variables", trainable_variables)
        if len(grads) != len(variables):
            raise ValueError(
                f"'grads' has {len(grads)} elements but there are {len(variables)} "
                "variables. Pass one gradient for each variable, or None for one without."
            )
        self._apply(grads, variables, aggregate=True, unknown_is_scaled=True)

    @not_converted
    def check_finite(self, grads: Iterable[gradients_lib.Gradient]) -> tf.Tensor:
        """Return whether all of this replica's gradients are finite.

        Args:
          grads: list of tensors, `tf.IndexedSlices` or None, which is ignored.

        Returns:
          A scalar bool tensor.

        Source: Keras 3.
        """
        return finite_lib.all_finite(list(grads))

    def stateless_apply(
        self, optimizer_variables: Any, grads: Any, trainable_variables: Any
    ) -> NoReturn:
        """Raise ValueError: TensorFlow optimizers hold their state in variables.

        Args:
          optimizer_variables: ignored.
          grads: ignored.
          trainable_variables: ignored.

        Raises:
          ValueError: always.

        Source: Keras 3, whose TensorFlow optimizers raise the same.
        """
        raise ValueError(
            "stateless_apply is not supported with the TensorFlow backend, whose "
            "optimizers hold their state in variables. Use apply() or apply_gradients()."
        )

    def finalize_variable_values(self, var_list: Iterable[Any]) -> None:
        """Overwrite variables by their averages, if the inner optimizer keeps averages.

        Args:
          var_list: list of model variables.
        """
        finalize = getattr(self.inner_optimizer, "finalize_variable_values", None)
        if finalize is not None:
            finalize(var_list)
