"""The adapter to Keras 3 optimizers on the TensorFlow backend."""

import contextlib
import sys

import keras
import tensorflow as tf

from tf_lso import environment, pages, tf_private
from tf_lso.optimizers import slots, validation
from tf_lso.optimizers import variables as variables_lib
from tf_lso.optimizers.families import family, keras3_schedules, keras3_views
from tf_lso.optimizers.families import keras3_private as private
from tf_lso.scaling import gradients as gradients_lib

# Methods that TensorFlow 2.4-2.15 called in `fit`, and Keras 3 does not call so.
_LEGACY_METHODS = (
    "get_scaled_loss",
    "get_unscaled_gradients",
    "_compute_gradients",
    "minimize",
    "apply_gradients",
)

_DEPTH = 12  # frames between Keras's `train_step` and `refuse_in_fit`, at most


def _tolerate_no_gradients(part):
    """Make a part of a MultiOptimizer ignore gradients that are all None.

    Keras 3 raises an error, after other parts have already updated their variables.
    """
    keras_apply = part.apply

    def apply(grads, trainable_variables=None):
        if any(gradient is not None for gradient in grads):
            keras_apply(grads, trainable_variables)

    variables_lib.set_untracked(part, "apply", apply)


@contextlib.contextmanager
def _where_built(strategy):
    """Enter the scope of a strategy, outside of functions if it has several replicas.

    There the bare optimizer must be built before the function is called.
    """
    several = strategy.num_replicas_in_sync > 1
    outside = tf.init_scope() if several else contextlib.nullcontext()
    with outside, variables_lib.scope_of(strategy):
        yield


def _build_as_bare(optimizer, variables):
    """Build an optimizer; in a function, as the bare one would be built there.

    TensorFlow traces a function that has made variables once more, and drops the first
    trace. So the variables that a build makes remain, and nothing that it computes; the
    model variables that it reads may have no value yet. A function of its own does the
    same, also where the one around it may make no variables.
    """
    if not tf.executing_eagerly():
        before = len(optimizer.variables)
        build = tf.function(lambda: optimizer.build(variables), autograph=False)
        try:
            build.get_concrete_function()
            return
        except Exception:
            if optimizer.built or len(optimizer.variables) != before:
                raise
    # A build that asks for numbers, as parts of a MultiOptimizer do that are copies.
    with tf.init_scope():
        optimizer.build(variables)


def _aggregate_gradients(self, grads_and_vars):
    """Return the pairs with aggregated gradients; None stays None.

    Raises:
      TypeError: if a list holds something else than gradients or variables.
      ValueError: if an element is no pair.
    """
    pairs = list(zip(*validation.unzip(grads_and_vars)))
    given = [pair for pair in pairs if pair[0] is not None]
    summed = iter(self._family.aggregate(*validation.unzip(given))[0])
    return [(None if g is None else next(summed), v) for g, v in pairs]


class Keras3(slots.ListedSlots, family.Family):
    """The adapter to Keras 3 optimizers on the TensorFlow backend.

    A checkpoint has the names of a plain optimizer, and also "inner_optimizer" and
    "loss_scale". So a checkpoint of a plain optimizer can be restored into a wrapped one
    and the other way round, as in TensorFlow 2.3-2.15.
    """

    name = "keras3"
    package = "keras"
    base = keras.optimizers.Optimizer
    bases = (keras.optimizers.LossScaleOptimizer,)
    weight_layouts = ("variables", "weights", "weights alone")
    defers_weights = True
    lists_dependencies = True
    members = {  # noqa: RUF012
        "aggregate_gradients": _aggregate_gradients,
        "step_counter": property(
            lambda self: self._family.views.get("step_counter"),
            doc="`dynamic_counter` as a variable of Keras 3; None if the scale is fixed.",
        ),
        "dynamic_scale": property(
            lambda self: self._family.views.get("dynamic_scale"),
            doc="The loss scale as a variable of Keras 3; None if it is fixed.",
        ),
        **slots.HIDDEN_FROM_CHECKPOINTS,
    }

    def __init__(self, inner):
        super().__init__(inner)
        self.views = {}  # Keras 3's name -> its variable, of the loss scale
        self._own = []  # the variables that Keras's base class made for the wrapper
        self._own_names = {}
        self._second_names = {}

    # --- Construction.

    def check(self):
        """Raise if Keras has another backend than TensorFlow."""
        environment.require_tensorflow_backend()

    def initialize(self, wrapper, name):
        """Call the constructor of Keras's base class for the wrapper."""
        # Skips the constructor of Keras's own LossScaleOptimizer, which has other
        # arguments and sets other attributes.
        super(keras.optimizers.LossScaleOptimizer, wrapper).__init__(
            learning_rate=0.0, name=name
        )
        self._own = private.own_variables(wrapper)
        self._own_names = {n: vars(wrapper).get(n) for n in private.OF_EACH_OPTIMIZER}

    def take_over(self, wrapper, loss_scale):
        """Change the inner optimizer as it must be changed."""
        # As Keras's own wrapper does. Else the gradients would be divided by it too.
        self.inner.loss_scale_factor = None
        self._loss_scale = loss_scale
        self._take_over_parts()
        with tf.init_scope(), keras.name_scope(wrapper.name):
            self.views.update(keras3_views.views(loss_scale))
        if self.inner.built:
            self._note_built(wrapper)

    @property
    def _parts(self):
        """The optimizers that update variables: the inner one, and those it combines."""
        return [self.inner, *getattr(self.inner, "optimizers", ())]

    def _take_over_parts(self):
        """Change each inner optimizer as it must be changed, once.

        A MultiOptimizer that was made with a function gets its parts when it is built.
        """
        for part in self._parts:
            if not getattr(part, "_taken_over_by_tf_lso", False):
                private.check_instance(part)
                variables_lib.set_untracked(part, "_taken_over_by_tf_lso", True)
                private.sum_gradients_only_once(part)
                private.count_steps_once(part)
                if part is not self.inner:
                    _tolerate_no_gradients(part)

    def refuse_in_fit(self, cls):
        """Raise RuntimeError if Keras's `train_step` runs, which ignores methods of `cls`."""
        own = [
            n for n in _LEGACY_METHODS if not validation.is_of_tf_lso(getattr(cls, n))
        ]
        if not own:
            return
        frame = sys._getframe(1)
        for _ in range(_DEPTH):
            if frame is None:
                return
            if frame.f_code is keras.Model.train_step.__code__:
                raise RuntimeError(
                    f"{cls.__name__} overrides {', '.join(own)}, which `fit` of Keras 3 "
                    "does not call as TensorFlow 2.4-2.15 did. Override train_step() of "
                    "the model and call them there, or set TF_USE_LEGACY_KERAS=1. "
                    f"See {pages.troubleshooting('overrides-in-fit')}"
                )
            frame = frame.f_back

    # --- A step.

    def build(self, wrapper, variables):
        """Create the variables of the inner optimizer, once.

        This works inside and outside the scope of the variables' strategy, and in a
        traced function.
        """
        if not variables:
            return  # Keras 3 does this for .h5 files, before it knows the variables
        with variables_lib.building:
            if not self.inner.built:
                strategy = variables_lib.strategy_of(variables)
                names = keras.name_scope(wrapper.name)  # as in Keras's own wrapper
                with _where_built(strategy), names:
                    self._build_under(strategy)
                    _build_as_bare(self.inner, variables)
                    self._build_under(strategy)  # parts made just now
                self._take_over_parts()
            self._note_built(wrapper)

    def _build_under(self, strategy):
        for part in self._parts:
            private.build_under(part, strategy)

    def _note_built(self, wrapper):
        private.set_built_variables(wrapper, self.built_variables())
        wrapper.built = True

    def prepare(self, wrapper, variables, used):
        """Build on all variables, also those without a gradient, as Keras 3 does."""
        del used
        self._refuse_on_replicas()
        unchecked = self.unchecked(variables)
        if not unchecked:
            return
        # Also if it claims to be built: another thread may be building it.
        tf_private.once_for_replicas(wrapper.build, variables)
        self._refuse_on_replicas()  # also for parts that were made just now
        validation.check_known(unchecked, *self.known_variables())
        heads = {id(v) for v in (*self._counters(), *self._learning_rates())}
        validation.check_own_variables(
            [v for v in self.inner.variables if id(v) not in heads]
        )
        self.note_checked(variables)

    def _refuse_on_replicas(self):
        for part in self._parts:
            validation.check_replicas(part)

    def sum_over_replicas(self, gradients, variables):
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

    def apply(self, gradients, variables, *args, name=None, **kwargs):
        """Update the variables by the inner optimizer, in replica context."""
        del name
        pairs = list(zip(gradients, variables))
        if len(self._parts) > 1:
            # A MultiOptimizer needs (None, variable) for all other variables.
            _, key = self.known_variables()
            given = {key(variable) for variable in variables}
            pairs += [(None, v) for v in self.built_variables() if key(v) not in given]
        with private.already_summed():
            return self.inner.apply_gradients(pairs, *args, **kwargs)

    def count_skipped(self):
        """Count a skipped step; return the operations that do it.

        With gradient accumulation the counter counts micro-steps. A skipped micro-step
        adds nothing to the sum, so it is not counted.
        """
        parts = [p for p in self._parts if not p.gradient_accumulation_steps]
        counters = [variables_lib.raw(private.iteration_variable(p)) for p in parts]
        return [counter.assign_add(1, read_value=False) for counter in counters]

    # --- Attributes.

    def counter(self):
        """Return the variable that counts steps."""
        return private.iteration_variable(self.inner)

    def _counters(self):
        return [private.iteration_variable(part) for part in self._parts]

    def set_iterations(self, value):
        """Set `iterations`."""
        steps = self.inner.gradient_accumulation_steps or 1
        value = tf.cast(tf.convert_to_tensor(variables_lib.raw(value)), tf.int64)
        variables_lib.raw(self.counter()).assign(value * steps)

    def learning_rate(self):
        """Return the rate of the next step, which also serves as its schedule."""
        rate = private.learning_rate(self.inner)
        return keras3_schedules.rate_of(rate, self.inner.learning_rate)

    def decayed_lr(self, var_dtype):
        """Return the learning rate of the next step."""
        return tf.cast(self.inner.learning_rate, var_dtype)

    # --- Variables.

    def built_variables(self):
        """Return the model variables that the optimizer was built for."""
        return private.built_variables(self.inner)

    def known_variables(self):
        """Return {key: place} of the variables it was built for, and the key function."""
        return private.known_variables(self.inner)

    def _learning_rates(self):
        """Return the variables that hold learning rates, a list."""
        held = {id(private.learning_rate(part)) for part in self._parts}
        return [v for v in self.inner.variables if id(v) in held]

    def variables_before_build(self, scale_variables):
        """Return the variables that exist from construction on."""
        own = [*self._own, *self.views.values(), *scale_variables]
        return [*own, *self._counters(), *self._learning_rates()]

    def variables(self):
        """Return all variables in Keras 3's order."""
        return [*self._own, *self.views.values(), *self.inner.variables]

    def weights(self):
        """Return the step counter, then slot by slot; the learning rate is not there."""
        rates = {id(v) for v in self._learning_rates()}
        listed = [v for v in self.inner.variables if id(v) not in rates]
        return slots.by_slot(self.inner, listed)

    @property
    def file_layouts(self):
        """Names of the layouts that files may have."""
        # With a fixed scale nothing distinguishes the order of "weights" from the others.
        by_slot = ["weights"] if self._loss_scale.named_variables() else []
        return ("variables", "unscaled", *by_slot, "inner")

    def layouts(self, own):
        """Return the layouts; see `Family.layouts`."""
        inner = self.inner.variables
        return {
            **super().layouts(own),
            "variables": (self.variables(), []),
            # Keras 3's own wrapper writes this before it is built, or with a fixed scale.
            "unscaled": ([*self._own, *inner], []),
            "inner": (inner, []),
        }

    def new_slot(self, var, slot_name, initializer):
        """Return a new variable of the inner optimizer for a model variable."""
        return self.inner.add_variable_from_reference(
            var, name=slot_name, initializer=initializer
        )

    # --- Files and checkpoints.

    def serialize(self):
        """Return the config of the inner optimizer, with the name of its class."""
        return keras.saving.serialize_keras_object(self.inner)

    def load_file(self, state, arrays):
        """Set all state from a file; Keras warns of one that has none."""
        return state.load(arrays) if arrays else NotImplemented

    def dependencies(self, children, save_type, **kwargs):
        """Return what a checkpoint or a SavedModel holds of the wrapper, by names."""
        # Keras did not see these two attributes being set, so it does not list them.
        own = {"inner_optimizer": self.inner, "loss_scale": self._loss_scale}
        if save_type != "checkpoint":
            return {**children, **own}
        names = tf_private.children(self.inner, save_type, **kwargs)
        for name in private.OF_EACH_OPTIMIZER:
            if name in names:
                # In files of other wrappers these names have meaningless values. Names
                # are restored in alphabetic order, so the right values of
                # "inner_optimizer" come later. But they come only if this is not one
                # object with two names.
                second = self._second_names.setdefault(name, _SecondName(names[name]))
                names[name] = second
        return {**names, **own}

    def dependency(self, name, found):
        """Return the object below which a checkpoint has `name`, or None."""
        # The names that Keras 3's own wrapper gives the scale and the count.
        if name in ("step_counter", "dynamic_scale") and name in self.views:
            return variables_lib.raw(self.views[name])
        child = found()
        # Without such a child, the inner optimizer has a schedule.
        return self._own_names.get(name) if child is None else child


class _SecondName(tf_private.trackable()):  # type: ignore[misc]
    """A second name for a variable, with its own entry in the checkpoint."""

    def __init__(self, variable):
        self._variable = variable

    def _serialize_to_tensors(self):
        return {"VARIABLE_VALUE": variables_lib.copies(self._variable)[0].read_value()}

    def _restore_from_tensors(self, restored_tensors):
        value = restored_tensors["VARIABLE_VALUE"]
        return [copy.assign(value) for copy in variables_lib.copies(self._variable)]
