"""The face for the newer optimizers of Keras 2, the default since 2.11."""

import tensorflow as tf

from tf_lso import kerases, pages
from tf_lso.optimizers import validation
from tf_lso.optimizers.faces import keras2
from tf_lso.optimizers.surface import slots

# Variables that an optimizer of Keras 2 does not list. Nadam has one.
_HIDDEN = ("_u_product",)


class NewFace(slots.ListedSlots, keras2.Keras2Face):
    """The face for the newer optimizers of Keras 2, the default since 2.11."""

    _family = "new"
    # This class takes both; subclasses may have taken over the second from OptimizerV2.
    _aggregation_off = {  # noqa: RUF012
        "skip_gradients_aggregation": True,
        "experimental_aggregate_gradients": False,
    }

    @staticmethod
    def _base_in(keras):
        return keras.optimizers.Optimizer

    def _sum_over_replicas(self, gradients, variables):
        pairs = self.inner_optimizer.aggregate_gradients(
            list(zip(gradients, variables))
        )
        return validation.unzip(pairs)[0]

    def _build_inner(self, variables):
        self.inner_optimizer.build(variables)

    def _hidden_variables(self):
        return [
            getattr(self.inner_optimizer, n)
            for n in _HIDDEN
            if hasattr(self.inner_optimizer, n)
        ]

    def _prepare_step(self, variables, used):
        del used  # these optimizers are built on all variables, also without a gradient
        unchecked = self._unchecked(variables)
        if not unchecked:
            return
        self.build(variables)
        validation.check_known(unchecked, *self._known_variables())
        self._note_checked(variables)

    def _compute_inner(self, loss, var_list, grad_loss, tape):
        if grad_loss is not None:
            return super()._compute_inner(loss, var_list, grad_loss, tape)
        if not callable(var_list):
            var_list = tf.nest.flatten(var_list)
        return self.inner_optimizer.compute_gradients(loss, var_list, tape=tape)

    def aggregate_gradients(self, grads_and_vars):
        """Return the pairs with aggregated gradients."""
        return self.inner_optimizer.aggregate_gradients(grads_and_vars)

    @property
    def jit_compile(self):
        """Whether the inner optimizer compiles its update with XLA; may be set."""
        return self.inner_optimizer.jit_compile

    @jit_compile.setter
    def jit_compile(self, value):
        self.inner_optimizer.jit_compile = value

    def _decayed_lr(self, var_dtype):
        rate = self.inner_optimizer._learning_rate
        if callable(rate) and not isinstance(rate, tf.Variable):
            rate = rate(self.iterations)
        return tf.cast(rate, var_dtype)

    def _create_or_restore_slot_variable(self, *args, **kwargs):
        # TensorFlow calls this for each slot of an OptimizerV2 in a checkpoint.
        name = type(self.inner_optimizer).__name__
        legacy = f"{kerases.keras2_spelled(self._package)}.optimizers.legacy"
        raise ValueError(
            "The checkpoint was written by an optimizer of TensorFlow 2.0-2.10 or of "
            f"{legacy}, but is restored into one of the newer "
            f"kind, {name}. Restore it with tf_lso.checkpoints.restore(path, model=model, "
            f"optimizer=optimizer), or wrap the older kind: {legacy}.{name}. "
            f"See {pages.troubleshooting('kinds')}"
        )

    def _known_variables(self):
        # No public name tells which variables an optimizer was built for.
        return self.inner_optimizer._index_dict, self.inner_optimizer._var_key

    def _new_slot(self, var, slot_name, initializer):
        initializer = kerases.public(self._package).initializers.get(initializer)
        return self.inner_optimizer.add_variable_from_reference(
            var, slot_name, initial_value=initializer(var.shape, var.dtype)
        )
