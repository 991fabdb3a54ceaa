"""The adapter to Keras 3 optimizers on the TensorFlow backend."""

import contextlib
import weakref
from typing import Any

import keras
import tensorflow as tf

from tf_lso.frameworks import environment, keras3_views, tf_private
from tf_lso.frameworks import keras3_private as private
from tf_lso.frameworks import optimizer_table as table
from tf_lso.frameworks import variables as variables_lib
from tf_lso.optimizers import manifest as manifest_lib
from tf_lso.optimizers import slots, state, validation
from tf_lso.optimizers.families import family
from tf_lso.scaling import gradients as gradients_lib

# `fit` of Keras 3 does not call these methods as `fit` of TensorFlow 2.4-2.15 did.
_LEGACY_METHODS = (
    "get_scaled_loss",
    "get_unscaled_gradients",
    "_compute_gradients",
    "minimize",
    "apply_gradients",
)

_changed: weakref.WeakSet[Any] = weakref.WeakSet()


def _aggregate_gradients(self, grads_and_vars):
    """Sum the gradients of (gradient, variable) pairs over all replicas.

    Return a list of (sum, variable) pairs. If a gradient is None, the sum is also None.
    """
    pairs = list(zip(*validation.unzip(grads_and_vars)))
    given = [pair for pair in pairs if pair[0] is not None]
    summed = iter(self._family.aggregate(*validation.unzip(given))[0])
    return [(None if g is None else next(summed), v) for g, v in pairs]


def _with_summed_rows(grads_and_vars):
    pairs = list(grads_and_vars)
    summed = gradients_lib.with_summed_rows([gradient for gradient, _ in pairs])
    return [(gradient, v) for gradient, (_, v) in zip(summed, pairs)]


def _view(name):
    doc = f"The variable `{name}` of Keras 3's own wrapper. None for a fixed scale."
    return property(lambda self: self._family.views.get(name), doc=doc)


class Keras3(family.Family):
    """The adapter to Keras 3 optimizers on the TensorFlow backend.

    A checkpoint contains the names that an optimizer without a wrapper would save, and also
    "inner_optimizer" and "loss_scale". So a wrapped optimizer can restore the checkpoint of
    an optimizer that is not wrapped. The reverse also works, as in TensorFlow 2.3-2.15.
    """

    name = "keras3"
    package = "keras"
    base = keras.optimizers.Optimizer
    bases = (keras.optimizers.LossScaleOptimizer,)
    members = {  # noqa: RUF012
        "aggregate_gradients": _aggregate_gradients,
        **{name: _view(name) for name in keras3_views.NAMES.values()},
        **slots.HIDDEN_FROM_CHECKPOINTS,
    }

    def __init__(self, inner):
        super().__init__(inner)
        environment.require_tensorflow_backend()
        private.check_instance(inner)
        self.slots = slots.ListedSlots(self, private.own_variables(inner))
        # Maps names in checkpoints to `SecondName` objects, see `dependencies`.
        self._second_names = {}

    @property
    def _parts(self):
        """A list of the inner optimizer and, in a MultiOptimizer, the optimizers inside it."""
        return [self.inner, *getattr(self.inner, "optimizers", ())]

    def join(self, wrapper, loss_scale, name):
        # Skip the constructor of Keras's own LossScaleOptimizer, which sets other attributes.
        super(keras.optimizers.LossScaleOptimizer, wrapper).__init__(
            learning_rate=0.0, name=name
        )
        self._own = private.own_variables(wrapper)
        self._own_names = {n: vars(wrapper).get(n) for n in private.OF_EACH_OPTIMIZER}
        private.scale_nothing(self.inner)
        self._loss_scale = loss_scale
        family.load_by_wrapper(self.inner)
        self.slots.restore_by_path()
        with tf.init_scope(), keras.name_scope(wrapper.name):
            self.views = keras3_views.views(loss_scale)
        if self.inner.built:
            self.build(wrapper, self.built_variables())

    def _change_parts(self, strategy):
        """Change the optimizers in `_parts` for the strategy and the steps of the wrapper.

        `build` calls this method before and after it builds the inner optimizer, because a
        MultiOptimizer may create the optimizers in it only when it is built.
        """
        for part in self._parts:
            private.build_under(part, strategy)
            if part not in _changed:
                private.check_instance(part)
                _changed.add(part)
                private.sum_gradients_only_once(part, _with_summed_rows)
                private.count_steps_once(part)
                if part is not self.inner:
                    private.tolerate_no_gradients(part)

    # --- A step.

    @property
    def sums_rows(self):
        # `_change_parts` replaces Keras 3's sum over replicas by a sum of duplicate rows. But
        # gradient accumulation comes before that, and would use only one of several duplicate
        # rows.
        accumulate = any(part.gradient_accumulation_steps for part in self._parts)
        return private.aggregates() and not accumulate

    def refuse_overridden(self, wrapper):
        cls, of_lso = type(wrapper), validation.is_of_tf_lso
        own = [
            name
            for name in _LEGACY_METHODS
            if name in vars(wrapper) or not of_lso(getattr(cls, name))
        ]
        if own:
            raise RuntimeError(
                f"{cls.__name__} overrides {', '.join(own)}, which `fit` of Keras 3, and other "
                "code that calls scale_loss(), does not call as TensorFlow 2.4-2.15 did. "
                "Override train_step() of the model and call them there, or set "
                "TF_USE_LEGACY_KERAS=1. See `tf-lso help overrides-in-fit`"
            )

    def prepare(self, wrapper, variables, used):
        # Build for all variables, including those without a gradient, as Keras 3 does.
        self._refuse_on_replicas()
        super().prepare(wrapper, variables, used)

    def _refuse_on_replicas(self):
        for part in self._parts:
            validation.check_replicas(part)

    def build(self, wrapper, variables):
        # Programs may call this method outside the strategy's scope, and in a traced function.
        if not variables:
            # For .h5 files, Keras 3 calls `build` before the variables are known.
            return
        with variables_lib.building:
            # If an earlier build refused a checkpoint, this build refuses it again.
            if not self.inner.built or self.slots.wait():
                strategy = variables_lib.strategy_of(variables)
                # With several replicas, variables must be created outside a traced function.
                several = strategy.num_replicas_in_sync > 1
                outside = tf.init_scope() if several else contextlib.nullcontext()
                # Keras's own wrapper creates the variables in this name scope.
                names = keras.name_scope(wrapper.name)
                with outside, variables_lib.scope_of(strategy), names:
                    self._change_parts(strategy)
                    with self.slots.being_built():
                        if not self.inner.built:
                            private.build_as_bare(self.inner, variables)
                    self._change_parts(strategy)
            private.set_built_variables(wrapper, self.built_variables())
            wrapper.built = True

    def _check_built(self, variables):
        # The build may have created the optimizers inside a MultiOptimizer.
        self._refuse_on_replicas()
        remedy = "make a new optimizer (after layers were unfrozen: compile with it)"
        validation.check_known(variables, *self.known_variables(), remedy)
        # The step counter and the learning rate may have been created outside the scope.
        functions = (private.iteration_variable, private.learning_rate)
        heads = {id(function(part)) for function in functions for part in self._parts}
        slots = [v for v in self.inner.variables if id(v) not in heads]
        validation.check_scope(slots)

    def apply(self, gradients, variables, *args, name=None, **kwargs):
        del name
        pairs = list(zip(gradients, variables))
        if len(self._parts) > 1:
            # A MultiOptimizer needs a pair for each variable, even without a gradient.
            _, key = self.known_variables()
            given = {key(variable) for variable in variables}
            pairs += [(None, v) for v in self.built_variables() if key(v) not in given]
        with private.already_summed():
            return self.inner.apply_gradients(pairs, *args, **kwargs)

    def count_skipped(self):
        # With gradient accumulation, the counter counts the additions to the accumulated sum,
        # and a skipped step adds nothing.
        parts = [p for p in self._parts if not p.gradient_accumulation_steps]
        counters = [variables_lib.raw(private.iteration_variable(p)) for p in parts]
        return [counter.assign_add(1, read_value=False) for counter in counters]

    # --- Attributes.

    def counter(self):
        return variables_lib.raw(private.iteration_variable(self.inner))

    def set_iterations(self, value):
        steps = self.inner.gradient_accumulation_steps or 1
        if self.inner.iterations is private.iteration_variable(self.inner):
            # Both are the same variable without gradient accumulation, and always in Keras 3.0.
            steps = 1
        value = tf.cast(tf.convert_to_tensor(variables_lib.raw(value)), tf.int64)
        self.counter().assign(value * steps)

    def _rate_or_schedule(self):
        return private.learning_rate(self.inner)

    def decayed_lr(self, var_dtype):
        return tf.cast(self.inner.learning_rate, var_dtype)

    # --- Variables.

    def built_variables(self):
        return private.built_variables(self.inner)

    def known_variables(self):
        return private.known_variables(self.inner)

    def new_slot(self, var, slot_name, initializer):
        return self.inner.add_variable_from_reference(
            var, name=slot_name, initializer=initializer
        )

    def variables(self):
        return [*self._own, *self.views.values(), *self.inner.variables]

    def weights(self):
        # As in OptimizerV2, the step counter comes first, then all slots with the first slot
        # name, then all slots with the second, and so on. The learning rate is absent.
        rates = {id(private.learning_rate(part)) for part in self._parts}
        listed = [v for v in self.inner.variables if id(v) not in rates]
        return table.by_slot(self.inner, listed)

    def layouts(self, scale_variables):
        own, views, inner = self._own, self.views.values(), self.inner.variables
        # The step counter comes first, and then the learning rate, unless it is a schedule.
        number = len(self.head_names())
        heads, slots = inner[:number], inner[number:]
        all_state = state.Layout("variables", [*own, *views, *heads], slots)
        counter, *slots_by_slot = self.weights()
        by_slot = state.Layout("weights", [counter], slots_by_slot, scale_variables)
        files = [
            all_state,
            # Keras 3's own wrapper writes this layout before it is built. tf_lso's wrapper
            # writes the same one if the loss scale is fixed.
            state.Layout("variables", [*own, *heads], slots),
            # Without variables of a loss scale, these layouts are left out, because they can
            # look like the last layout of this list.
            *(_of_keras2(all_state, by_slot) if scale_variables else []),
            state.Layout("variables", heads, slots),
        ]
        weights = [all_state, by_slot, by_slot._replace(tail=())]
        if number == 1:
            # With a schedule, an optimizer of Keras 3 without a wrapper has as many `variables`
            # as an optimizer of Keras 2, which orders its slots differently. So both orders are
            # possible.
            weights.insert(1, state.Layout("variables", heads, slots))
        return files, weights

    # --- Files and checkpoints.

    def head_names(self):
        rate = private.learning_rate(self.inner)
        is_number = any(v is rate for v in self.inner.variables)
        return ["iterations", *(["learning_rate"] if is_number else [])]

    def labels(self, variables):
        found = super().labels(variables)
        # Each optimizer inside a MultiOptimizer has slots of its own.
        for number, part in enumerate(self._parts[1:]):
            built = private.built_variables(part)
            numbers = {id(v): n for n, v in enumerate(self.built_variables())}
            for place, (slot, n) in enumerate(
                manifest_lib.labels(part, variables, built)
            ):
                if not slot.startswith(manifest_lib.UNKNOWN):
                    own = None if n is None else numbers.get(id(built[n]))
                    found[place] = f"{number}/{slot}", own
        return found

    def dependencies(self, children, save_type, **kwargs):
        # Keras does not track the inner optimizer and the loss scale for the wrapper.
        own = {"inner_optimizer": self.inner, "loss_scale": self._loss_scale}
        if save_type != "checkpoint":
            return {**children, **own}
        names = tf_private.children(self.inner, save_type, **kwargs)
        # Keras 3's own wrapper saves the step counter and the learning rate twice. The values
        # under the variables' own names are meaningless, and the values under "inner_optimizer"
        # are right. TensorFlow restores each object only once, in the alphabetical order of the
        # names, so a variable would keep the meaningless value. A `SecondName` is a separate
        # object, into which TensorFlow restores this value instead.
        for name in names.keys() & private.OF_EACH_OPTIMIZER:
            names[name] = self._second_names.setdefault(
                name, variables_lib.SecondName(names[name])
            )
        return {**names, **own}

    def dependency(self, name, children):
        # Keras 3's own wrapper saves the loss scale and its counter under these names, and also
        # in its list of variables. A fixed scale restores them into an object without values.
        # Otherwise TensorFlow would restore them into the slots at these places of the list.
        if name in keras3_views.NAMES.values():
            is_fixed = name not in self.views
            return tf.Module() if is_fixed else variables_lib.raw(self.views[name])
        # If the inner optimizer has a schedule, the learning rate in a checkpoint is restored
        # into the wrapper's own learning rate, which no step uses.
        found = children.get(name, self._own_names.get(name))
        return self.slots.restored_once(name, found)


def _of_keras2(by_variable, by_slot):
    """Return the layouts that a file has if a Keras 2 optimizer wrote it.

    Legacy optimizers write the slots in the order of `by_slot`, and newer optimizers in the
    order of `by_variable`. Only the shapes of the arrays in a file can show which order it has.
    If the shapes do not show the difference, the list is empty. Otherwise a program could
    silently load slots into the wrong variables.
    """
    newer = by_slot._replace(order="variables", slots=by_variable.slots)
    shapes = [[tuple(v.shape) for v in one.slots] for one in (newer, by_slot)]
    are_same = list(map(id, newer.slots)) == list(map(id, by_slot.slots))
    return [by_slot, newer] if are_same or shapes[0] != shapes[1] else []
