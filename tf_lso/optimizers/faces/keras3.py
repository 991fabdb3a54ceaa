"""The face for Keras 3 optimizers on the TensorFlow backend."""

import keras
import numpy as np
import tensorflow as tf

from tf_lso import environment, thread_switch
from tf_lso.optimizers import checks
from tf_lso.optimizers.faces import keras3_files
from tf_lso.optimizers.surface import attributes, scheduled, slots
from tf_lso.optimizers.surface import legacy as surface
from tf_lso.scaling import gradients as gradients_lib
from tf_lso.scaling import replica

OPTIMIZER = keras.optimizers.Optimizer

_summed = thread_switch.ThreadSwitch()


def _parts(optimizer):
    """Return the optimizers that update variables: itself, and those it combines."""
    return [optimizer, *getattr(optimizer, "optimizers", ())]


# --- Private names of Keras 3, for what has no public name. Each function changes one
# instance only. tests/optimizers/test_keras3_private.py fails when Keras moves a name.


def _iteration_variable(optimizer):
    """Return the step counter; with gradient accumulation `iterations` is a quotient."""
    if hasattr(optimizer, "_iterations"):
        return optimizer._iterations
    return optimizer.iterations  # Keras 3.0


def _learning_rates(optimizer):
    """Return the ids of the variables that hold learning rates."""
    return {id(getattr(part, "_learning_rate", None)) for part in _parts(optimizer)}


def sum_gradients_only_once(optimizer):
    """Allow to switch off the aggregation over replicas in the update step.

    Keras 3 aggregates inside its update step, after clipping. Loss scaling must aggregate
    before that: it takes its verdict on the sum, and clipping comes last, as in
    TensorFlow 2.4-2.15.
    """
    keras_sum = getattr(optimizer, "_all_reduce_sum_gradients", None)
    if keras_sum is None:
        return  # Keras 3.0 does not aggregate

    def sum_gradients(grads_and_vars):
        return list(grads_and_vars) if _summed.is_on else keras_sum(grads_and_vars)

    optimizer.__dict__["_all_reduce_sum_gradients"] = sum_gradients


def already_summed():
    """Return a context in which optimizers take gradients as aggregated already."""
    return _summed.on()


def _count_steps_once(optimizer):
    """Make the step counter exact with threads, and outside a strategy's scope.

    Keras 3 reads the counter and then assigns it, so threads lose steps. And if the
    counter is not mirrored, every replica adds 1 to it.
    """
    variable = _iteration_variable(optimizer)
    keras_assign = variable.assign

    def assign_add(value):
        raw = variable.value
        if (
            not isinstance(raw, tf.distribute.DistributedValues)
            and not replica.is_first_here()
        ):
            return raw
        return raw.assign_add(value)

    def assign(value):
        # Keras 3.0 assigns the counter plus 1 at the end of a step.
        return assign_add(1) if _summed.is_on else keras_assign(value)

    variable.__dict__.update(assign_add=assign_add, assign=assign)


def _tolerate_no_gradients(part):
    """Make a part of a MultiOptimizer ignore gradients that are all None.

    Keras 3 raises an error, after other parts have already updated their variables.
    """
    keras_apply = part.apply

    def apply(grads, trainable_variables=None):
        if any(gradient is not None for gradient in grads):
            keras_apply(grads, trainable_variables)

    part.__dict__["apply"] = apply


def _build_under(optimizer, strategy):
    """Make `optimizer` create and update its variables under `strategy`."""
    for part in _parts(optimizer):
        part.__dict__["_distribution_strategy"] = strategy


class _View(keras.Variable):
    """A variable of Keras 3 that shares the value of a TensorFlow variable.

    With it everything that Keras 3 does with `optimizer.variables` works. Keras has no
    public way to make a variable from an existing one.
    """

    def __init__(self, variable, name):
        self.__dict__["_viewed"] = variable
        dtype = variable.dtype.name
        super().__init__(0, shape=(), dtype=dtype, trainable=False, name=name)
        self._autocast = False

    def _initialize(self, value):
        self._value = self._viewed
        self._shape = tuple(self._viewed.shape)


# Names that Keras 3's own wrapper gives the variables of a dynamic scale, in its order.
_NAMES = {"good_steps": "step_counter", "current_loss_scale": "dynamic_scale"}


def _views(loss_scale):
    """Return {Keras 3's name: `_View`} for the variables of a loss scale."""
    named = dict(loss_scale.named_variables())
    names = [*(n for n in _NAMES if n in named), *(n for n in named if n not in _NAMES)]
    return {_NAMES.get(n, n): _View(named[n], _NAMES.get(n, n)) for n in names}


def _known_variables(optimizer):
    return optimizer._trainable_variables_indices, optimizer._var_key


def _refuse_on_replicas(optimizer):
    """Raise ValueError for what Keras 3 itself cannot do with several replicas."""
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    if optimizer.gradient_accumulation_steps and replicas > 1:
        raise ValueError(
            "gradient_accumulation_steps="
            f"{optimizer.gradient_accumulation_steps} of the inner optimizer does not "
            f"work under a strategy of {replicas} replicas, in Keras 3 itself. "
            "Accumulate in the training loop: add up the unscaled gradients of the "
            "micro-batches in variables made in strategy.scope(), and call "
            "apply_gradients() with them after the last one; "
            "compat_docs/distribution.md has the program."
        )
    if optimizer.use_ema and optimizer.ema_overwrite_frequency and replicas > 1:
        raise ValueError(
            f"ema_overwrite_frequency={optimizer.ema_overwrite_frequency} of the inner "
            f"optimizer does not work under a strategy of {replicas} replicas, in "
            "Keras 3 itself. Set it to None, and call finalize_variable_values() in "
            "`with strategy.scope():` when the averages are wanted."
        )


def register(cls, bound):
    """Make Keras 3 save instances of `bound` under the name by which it loads `cls`."""
    name = keras.saving.get_registered_name(cls)
    if ">" in name:
        package, name = name.split(">")
        keras.saving.register_keras_serializable(package, name)(bound)


class Keras3Face(
    keras3_files.Files,
    slots.ListedSlots,
    surface.Surface,
    keras.optimizers.LossScaleOptimizer,
):
    """The surface on an optimizer of Keras 3."""

    _family = "keras3"
    _calls_apply = True

    @property
    def aggregates_in_full(self):
        """Whether aggregation leaves the same gradients on each replica."""
        return checks.own_aggregation(self.inner_optimizer, OPTIMIZER) is None

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
            self.__dict__["_scale_views"] = _views(self.loss_scale_state)
        if inner.built:
            self._note_built()

    def _take_over_parts(self):
        """Change each inner optimizer as it must be changed, once.

        A MultiOptimizer that was made with a function gets its parts when it is built.
        """
        for part in _parts(self.inner_optimizer):
            if not part.__dict__.get("_taken_over_by_tf_lso"):
                part.__dict__["_taken_over_by_tf_lso"] = True
                sum_gradients_only_once(part)
                _count_steps_once(part)
                if part is not self.inner_optimizer:
                    _tolerate_no_gradients(part)

    # --- The flow.

    def aggregate_inner(self, gradients, variables):
        """Return the gradients aggregated over all replicas, and their variables.

        Next values of variables are not aggregated: each replica keeps its own, as with
        the bare optimizer.
        """
        aggregate = checks.own_aggregation(self.inner_optimizer, OPTIMIZER)
        if aggregate is not None:
            return checks.unzip(aggregate(list(zip(gradients, variables))))
        if replica.is_alone():
            return gradients, variables
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
        ], variables

    def apply_inner(self, gradients, variables, name):
        """Update the variables by the inner optimizer, in replica context."""
        del name
        pairs = list(zip(gradients, variables))
        if len(_parts(self.inner_optimizer)) > 1:
            pairs += self._without_gradient(variables)
        with already_summed():
            return self.inner_optimizer.apply_gradients(pairs)

    def _without_gradient(self, variables):
        """Return (None, variable) for all other variables, as a MultiOptimizer needs."""
        _, key = _known_variables(self.inner_optimizer)
        given = {key(variable) for variable in variables}
        return [(None, v) for v in self._built_variables() if key(v) not in given]

    def skip_inner(self):
        """Count a skipped step.

        With gradient accumulation the counter counts micro-steps. A skipped micro-step
        adds nothing to the sum, so it is not counted.
        """
        counters = [
            _iteration_variable(part)
            for part in _parts(self.inner_optimizer)
            if not part.gradient_accumulation_steps
        ]
        return [checks.raw(counter).assign_add(1) for counter in counters]

    # --- Building.

    def build(self, var_list):
        """Create the variables of the inner optimizer, once.

        This works inside and outside the scope of the variables' strategy, and in a
        traced function.

        Args:
          var_list: list of model variables.
        """
        var_list = list(var_list)
        if not var_list:
            return  # Keras 3 does this for .h5 files, before it knows the variables
        with checks.building:
            if not self.inner_optimizer.built:
                strategy = checks.strategy_of(var_list)
                names = keras.name_scope(self.name)  # as in Keras's own wrapper
                with tf.init_scope(), checks.scope_of(strategy), names:
                    _build_under(self.inner_optimizer, strategy)
                    self.inner_optimizer.build(var_list)
                    _build_under(self.inner_optimizer, strategy)  # parts made just now
                self._take_over_parts()
            self._note_built()

    def _note_built(self):
        # Attribute assignment would do more: Keras would track them as its own variables.
        self.__dict__["_trainable_variables"] = list(self._built_variables())
        self.built = True
        self._set_waiting()

    def set_weights(self, weights):
        """Set all state from a list of arrays.

        Args:
          weights: what `get_weights` returned, with or without the loss scale and its
            count; or the values of `variables`, which Keras 3 keeps in .h5 files. If the
            optimizer is not built yet, slots are kept until the build.

        Raises:
          TypeError: if `weights` is no list, or an array holds no numbers.
          ValueError: if the number of arrays or a shape does not fit. Nothing is set.
        """
        if keras3_files.state_follows.is_on:
            return
        weights = checks.as_list("weights", weights)
        variables = list(self.variables)
        if self.inner_optimizer.built:
            if len(weights) == len(variables):
                checks.assign_all(variables, weights)
            else:
                super().set_weights(weights)
            return
        # Copies, since the file that holds the arrays may be closed by then.
        weights = [np.array(w) for w in weights]
        layouts = ["variables", "weights", "weights alone"]
        if not self._keep_until_built(weights, layouts, is_file=False):
            super().set_weights(weights)  # raises, and says what does not fit

    def _built_variables(self):
        return getattr(self.inner_optimizer, "_trainable_variables", [])

    def _prepare(self, variables, used):
        del used  # Keras 3 builds on all variables, also those without a gradient
        self._refuse_on_replicas()
        unchecked = self._unchecked(variables)
        if unchecked:
            self._build_for(variables, unchecked)

    def _refuse_on_replicas(self):
        for part in _parts(self.inner_optimizer):
            _refuse_on_replicas(part)

    def _build_for(self, variables, unchecked):
        # Also if it claims to be built: another thread may be building it.
        if tf.__internal__.distribute.strategy_supports_no_merge_call():
            self.build(variables)
        else:
            tf.distribute.get_replica_context().merge_call(
                lambda _: self.build(variables)
            )
        self._refuse_on_replicas()  # also for parts that were made just now
        known, key = _known_variables(self.inner_optimizer)
        checks.refuse_unknown(
            [checks.name_of(v) for v in unchecked if key(v) not in known]
        )
        self._check_own_variables()
        self._note_checked(variables)

    def _check_own_variables(self):
        """Raise if a strategy would update slots once for each replica."""
        inner = self.inner_optimizer
        counters = {id(_iteration_variable(part)) for part in _parts(inner)}
        counters |= _learning_rates(inner)
        slots_ = [v for v in inner.variables if id(v) not in counters]
        strays = checks.outside_scope(slots_)
        if strays:
            raise ValueError(
                f"The optimizer's variables {strays} were created outside the scope of the "
                "strategy, so every replica would update them. Build the optimizer in "
                "`with strategy.scope():`, or let the first step build it."
            )

    def _counter(self):
        return _iteration_variable(self.inner_optimizer)

    def _head_variables(self):
        inner = self.inner_optimizer
        counters = [_iteration_variable(part) for part in _parts(inner)]
        rates = _learning_rates(inner)
        rates = [v for v in inner.variables if id(v) in rates]
        own = [*self.__dict__["_scale_views"].values(), *self._scale_variables()]
        return [*self._variables, *own, *counters, *rates]

    # --- The rest of the surface.

    @attributes.Attributes.learning_rate.getter
    def learning_rate(self):
        """The learning rate of the inner optimizer; may be set.

        With a schedule this is the rate of the next step, a float32 scalar that also
        serves as the schedule, see `scheduled`.
        """
        inner = self.inner_optimizer
        return scheduled.of(inner, inner.learning_rate)

    @property
    def variables(self):
        """All variables in Keras 3's order, a list that can also be called."""
        own = self.__dict__["_scale_views"].values()
        return checks.CallableList(
            [*self._variables, *own, *self.inner_optimizer.variables]
        )

    @property
    def weights(self):
        """The variables that an OptimizerV2 has in `weights`, in its order, a list.

        The step counter, then slot by slot. The learning rate is not one of them.
        """
        inner = self.inner_optimizer
        rates = _learning_rates(inner)
        kept = [v for v in inner.variables if id(v) not in rates]
        return slots.by_slot(inner, kept)

    def aggregate_gradients(self, grads_and_vars):
        """Return the pairs with aggregated gradients; None stays None."""
        pairs = list(zip(*checks.unzip(grads_and_vars)))
        given = [pair for pair in pairs if pair[0] is not None]
        summed = iter(self.aggregate_inner(*checks.unzip(given))[0])
        return [(None if g is None else next(summed), v) for g, v in pairs]

    @property
    def step_counter(self):
        """`dynamic_counter` as a variable of Keras 3; None if the scale is fixed."""
        return self.__dict__["_scale_views"].get("step_counter")

    @property
    def dynamic_scale(self):
        """The loss scale as a variable of Keras 3; None if it is fixed."""
        return self.__dict__["_scale_views"].get("dynamic_scale")

    def _set_iterations(self, value):
        steps = self.inner_optimizer.gradient_accumulation_steps or 1
        value = tf.cast(tf.convert_to_tensor(checks.raw(value)), tf.int64)
        checks.raw(_iteration_variable(self.inner_optimizer)).assign(value * steps)

    def _decayed_lr(self, var_dtype):
        return tf.cast(self.inner_optimizer.learning_rate, var_dtype)

    def _slot_index(self, var):
        known, key = _known_variables(self.inner_optimizer)
        return known[key(var)]

    def _new_slot(self, var, slot_name, initializer):
        return self.inner_optimizer.add_variable_from_reference(
            var, name=slot_name, initializer=initializer
        )

    def add_weight(self, name, shape=(), dtype=None, initializer="zeros", **kwargs):
        """Return a new variable of the inner optimizer.

        Args:
          name: str.
          shape: tuple of int.
          dtype: dtype, defaults to float32.
          initializer: a Keras initializer or its name.
          **kwargs: further arguments of TensorFlow 2.0-2.15, which are ignored.
        """
        del kwargs
        dtype = None if dtype is None else tf.as_dtype(dtype).name
        return self.inner_optimizer.add_variable(
            shape=tuple(shape), initializer=initializer, dtype=dtype, name=name
        )

    def get_config(self):
        """Return a dict from which `from_config` makes an equal optimizer.

        Keras 3's own LossScaleOptimizer can read it too, if the scale is dynamic and
        has no limits.
        """
        return {"name": self.name, **super().get_config()}

    def _serialize_inner(self):
        return keras.saving.serialize_keras_object(self.inner_optimizer)
