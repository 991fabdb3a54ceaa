"""The face for Keras 3 optimizers on the TensorFlow backend."""

import keras
import tensorflow as tf

from tf_lso import environment
from tf_lso.optimizers import overrides, validation
from tf_lso.optimizers import variables as variables_lib
from tf_lso.optimizers.faces import face, keras3_files, keras3_views
from tf_lso.optimizers.faces import keras3_private as private
from tf_lso.optimizers.surface import attributes, scheduled, slots
from tf_lso.scaling import gradients as gradients_lib


def _tolerate_no_gradients(part):
    """Make a part of a MultiOptimizer ignore gradients that are all None.

    Keras 3 raises an error, after other parts have already updated their variables.
    """
    keras_apply = part.apply

    def apply(grads, trainable_variables=None):
        if any(gradient is not None for gradient in grads):
            keras_apply(grads, trainable_variables)

    part.__dict__["apply"] = apply


class Keras3Face(
    keras3_files.Files,
    slots.ListedSlots,
    face.Face,
    keras.optimizers.LossScaleOptimizer,
):
    """The surface on an optimizer of Keras 3."""

    _base = keras.optimizers.Optimizer
    _family = "keras3"
    _package = "keras"
    _calls_apply = True

    @classmethod
    def _bound_to(cls, subclass, bound):
        """Make Keras 3 save instances of `bound` under the name by which it loads."""
        name = keras.saving.get_registered_name(subclass)
        if ">" in name:
            package, name = name.split(">")
            keras.saving.register_keras_serializable(package, name)(bound)

    def _initialize_family(self, name):
        # Skips the constructor of Keras's own LossScaleOptimizer, which has other
        # arguments and sets other attributes.
        super(keras.optimizers.LossScaleOptimizer, self).__init__(
            learning_rate=0.0, name=name
        )

    @staticmethod
    def _check_inner(inner):
        del inner
        environment.require_tensorflow_backend()

    def _wrap_inner(self):
        inner = self.inner_optimizer
        # As Keras's own wrapper does. Else the gradients would be divided by it too.
        inner.loss_scale_factor = None
        self._take_over_parts()
        with tf.init_scope(), keras.name_scope(self.name):
            self.__dict__["_scale_views"] = keras3_views.views(self.loss_scale_state)
        if inner.built:
            self._note_built()

    @property
    def _inner_parts(self):
        """The optimizers that update variables: the inner one, and those it combines."""
        inner = self.inner_optimizer
        return [inner, *getattr(inner, "optimizers", ())]

    def _take_over_parts(self):
        """Change each inner optimizer as it must be changed, once.

        A MultiOptimizer that was made with a function gets its parts when it is built.
        """
        for part in self._inner_parts:
            if not part.__dict__.get("_taken_over_by_tf_lso"):
                part.__dict__["_taken_over_by_tf_lso"] = True
                private.sum_gradients_only_once(part)
                private.count_steps_once(part)
                if part is not self.inner_optimizer:
                    _tolerate_no_gradients(part)

    def _refuse_in_fit(self):
        overrides.refuse_in_fit(type(self), keras.Model.train_step.__code__)

    # --- The flow.

    def _sum_over_replicas(self, gradients, variables):
        """Return the gradients summed over all replicas.

        Next values of variables are not aggregated: each replica keeps its own, as with
        the bare optimizer.
        """
        # A gradient that no operation of this replica made may have no device. The
        # reduction needs one.
        to_sum = [
            g
            if g.device
            else tf.nest.map_structure(tf.identity, g, expand_composites=True)
            for g, v in zip(gradients, variables)
            if not gradients_lib.overwrites(v)
        ]
        context = tf.distribute.get_replica_context()
        summed = iter(context.all_reduce(tf.distribute.ReduceOp.SUM, to_sum))
        return [
            g if gradients_lib.overwrites(v) else next(summed)
            for g, v in zip(gradients, variables)
        ]

    def apply_inner(self, gradients, variables, name):
        """Update the variables by the inner optimizer, in replica context."""
        del name
        pairs = list(zip(gradients, variables))
        if len(self._inner_parts) > 1:
            # A MultiOptimizer needs (None, variable) for all other variables.
            _, key = self._known_variables()
            given = {key(variable) for variable in variables}
            pairs += [(None, v) for v in self._built_variables() if key(v) not in given]
        with private.already_summed():
            return self.inner_optimizer.apply_gradients(pairs)

    def skip_inner(self):
        """Count a skipped step.

        With gradient accumulation the counter counts micro-steps. A skipped micro-step
        adds nothing to the sum, so it is not counted.
        """
        parts = [p for p in self._inner_parts if not p.gradient_accumulation_steps]
        counters = [variables_lib.raw(private.iteration_variable(p)) for p in parts]
        return [counter.assign_add(1, read_value=False) for counter in counters]

    # --- Building.

    def build(self, var_list):
        """Create the variables of the inner optimizer, once.

        This works inside and outside the scope of the variables' strategy, and in a
        traced function.

        Args:
          var_list: list of model variables.

        Raises:
          ValueError: if state that was set before the build does not fit these variables.
        """
        var_list = list(var_list)
        if not var_list:
            return  # Keras 3 does this for .h5 files, before it knows the variables
        with variables_lib.building:
            if not self.inner_optimizer.built:
                strategy = variables_lib.strategy_of(var_list)
                names = keras.name_scope(self.name)  # as in Keras's own wrapper
                with tf.init_scope(), variables_lib.scope_of(strategy), names:
                    self._build_under(strategy)
                    self.inner_optimizer.build(var_list)
                    self._build_under(strategy)  # parts made just now
                self._take_over_parts()
            self._note_built()

    def _build_under(self, strategy):
        for part in self._inner_parts:
            private.build_under(part, strategy)

    def _note_built(self):
        private.set_built_variables(self, self._built_variables())
        self.built = True
        self._set_waiting()

    def _built_variables(self):
        return private.built_variables(self.inner_optimizer)

    def _known_variables(self):
        return private.known_variables(self.inner_optimizer)

    def _prepare_step(self, variables, used):
        del used  # Keras 3 builds on all variables, also those without a gradient
        self._refuse_on_replicas()
        unchecked = self._unchecked(variables)
        if not unchecked:
            return
        # Also if it claims to be built: another thread may be building it.
        self._once_for_all(self.build, variables)
        self._refuse_on_replicas()  # also for parts that were made just now
        validation.check_known(unchecked, *self._known_variables())
        heads = {id(v) for v in (*self._counters(), *self._learning_rates())}
        validation.check_own_variables(
            [v for v in self.inner_optimizer.variables if id(v) not in heads]
        )
        self._note_checked(variables)

    def _refuse_on_replicas(self):
        for part in self._inner_parts:
            validation.check_replicas(part)

    # --- Variables.

    def _counter(self):
        return private.iteration_variable(self.inner_optimizer)

    def _counters(self):
        return [private.iteration_variable(part) for part in self._inner_parts]

    def _learning_rates(self):
        """Return the variables that hold learning rates, a list."""
        held = {id(private.learning_rate(part)) for part in self._inner_parts}
        return [v for v in self.inner_optimizer.variables if id(v) in held]

    def _views(self):
        return self.__dict__["_scale_views"]

    def _head_variables(self):
        return [
            *private.own_variables(self),
            *self._views().values(),
            *self._scale_variables(),
            *self._counters(),
            *self._learning_rates(),
        ]

    @property
    def variables(self):
        """All variables in Keras 3's order, a list that can also be called."""
        own = [*private.own_variables(self), *self._views().values()]
        return variables_lib.CallableList([*own, *self.inner_optimizer.variables])

    @property
    def weights(self):
        """The variables that an OptimizerV2 has in `weights`, in its order, a list.

        The step counter, then slot by slot. The learning rate is not one of them.
        """
        inner = self.inner_optimizer
        rates = {id(v) for v in self._learning_rates()}
        return slots.by_slot(inner, [v for v in inner.variables if id(v) not in rates])

    def _new_slot(self, var, slot_name, initializer):
        return self.inner_optimizer.add_variable_from_reference(
            var, name=slot_name, initializer=initializer
        )

    # --- The rest of the surface.

    @attributes.Attributes.learning_rate.getter  # type: ignore[attr-defined]
    def learning_rate(self):
        """The learning rate of the inner optimizer; may be set.

        With a schedule this is the rate of the next step, a float32 scalar that also
        serves as the schedule, see `scheduled`.
        """
        inner = self.inner_optimizer
        return scheduled.of(private.learning_rate(inner), inner.learning_rate)

    def aggregate_gradients(self, grads_and_vars):
        """Return the pairs with aggregated gradients; None stays None.

        Raises:
          TypeError: if a list holds something else than gradients or variables.
          ValueError: if an element is no pair.
        """
        pairs = list(zip(*validation.unzip(grads_and_vars)))
        given = [pair for pair in pairs if pair[0] is not None]
        summed = iter(self.aggregate_inner(*validation.unzip(given))[0])
        return [(None if g is None else next(summed), v) for g, v in pairs]

    @property
    def step_counter(self):
        """`dynamic_counter` as a variable of Keras 3; None if the scale is fixed."""
        return self._views().get("step_counter")

    @property
    def dynamic_scale(self):
        """The loss scale as a variable of Keras 3; None if it is fixed."""
        return self._views().get("dynamic_scale")

    def _set_iterations(self, value):
        steps = self.inner_optimizer.gradient_accumulation_steps or 1
        value = tf.cast(tf.convert_to_tensor(variables_lib.raw(value)), tf.int64)
        variables_lib.raw(self._counter()).assign(value * steps)

    def _decayed_lr(self, var_dtype):
        return tf.cast(self.inner_optimizer.learning_rate, var_dtype)

    def get_config(self):
        """Return a dict from which `from_config` makes an equal optimizer.

        Keras 3's own LossScaleOptimizer can read it too, if the scale is dynamic and
        has no limits.
        """
        return {"name": self.name, **super().get_config()}

    def _serialize_inner(self):
        return keras.saving.serialize_keras_object(self.inner_optimizer)
