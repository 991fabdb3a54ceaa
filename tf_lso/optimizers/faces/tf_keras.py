"""The faces for tf_keras optimizers: OptimizerV2 (legacy) and the newer Optimizer.

Imported only if the program has imported tf_keras.
"""

import inspect
import sys

import tensorflow as tf
import tf_keras

from tf_lso import environment
from tf_lso.optimizers import checks
from tf_lso.optimizers.faces import tf_keras_files
from tf_lso.optimizers.surface import legacy as surface
from tf_lso.optimizers.surface import slots
from tf_lso.scaling import replica

environment.check_version("tf_keras", tf_keras.__version__)

LEGACY_OPTIMIZER = tf_keras.optimizers.legacy.Optimizer
OPTIMIZER = tf_keras.optimizers.Optimizer

_FAMILY_WRAPPER = tf_keras.mixed_precision.LossScaleOptimizer


class _TFKerasFace(
    tf_keras_files.Files,
    tf.__internal__.tracking.DelegatingTrackableMixin,
    surface.Surface,
):
    """What the faces of both tf_keras families share.

    Checkpoints have the layout of tf_keras's own wrapper: the inner optimizer's
    dependencies and the loss scale.
    """

    _aggregation_off = None  # {keyword that switches it off: value}

    def _initialize_family(self, name):
        del name

    def _check_inner(self, inner):
        self._keywords(inner)

    def _keywords(self, inner, name=None):
        """Return keyword arguments for its apply_gradients: name, and no aggregation."""
        parameters = inspect.signature(inner.apply_gradients).parameters
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        named = {"name": name} if takes_any or "name" in parameters else {}
        for keyword, value in self._aggregation_off.items():
            if keyword in parameters or takes_any:
                return {keyword: value, **named}
        keyword = next(iter(self._aggregation_off))
        raise TypeError(
            f"apply_gradients() of {type(inner).__name__} takes no {keyword!r}, which "
            "LossScaleOptimizer needs since it sums gradients over replicas itself. "
            "Add the argument and pass it on to the base class."
        )

    def _wrap_inner(self):
        # The constructor of DelegatingTrackableMixin sets this. Attribute assignment would
        # not do: the newer optimizers track it, for which it must be set already.
        self.__dict__["_trackable"] = self.inner_optimizer
        if self.dynamic:
            # This replaces that of an earlier wrapper, since each `compile` wraps anew.
            self._track_trackable(self.loss_scale_state, "loss_scale", overwrite=True)
        self._initialize_in_sessions()

    def _lookup_dependency(self, name, *args, **kwargs):
        if name == "base_optimizer":
            if "_below" not in self.__dict__:  # kept, since TensorFlow refers weakly
                self.__dict__["_below"] = _Below(self)
            return self.__dict__["_below"]
        return super()._lookup_dependency(name, *args, **kwargs)

    def apply_inner(self, gradients, variables, name):
        """Update the variables by the inner optimizer, in replica context."""
        return self.inner_optimizer.apply_gradients(
            list(zip(gradients, variables)),
            **self._keywords(self.inner_optimizer, name),
        )

    def skip_inner(self):
        """Count a skipped step."""
        return [self.inner_optimizer.iterations.assign_add(1)]

    def _set_iterations(self, value):
        if isinstance(value, tf.Variable):
            self.inner_optimizer.iterations = value  # replaces the optimizer's own
        else:
            self.inner_optimizer.iterations.assign(tf.cast(value, tf.int64))

    def _built_variables(self):
        return self.__dict__.get("_build_list", [])

    def build(self, var_list):
        """Create the variables of the inner optimizer, once.

        Args:
          var_list: list of model variables.
        """
        var_list = list(var_list)
        with checks.building, tf.init_scope():
            self._build_inner(var_list)
            self._initialize_in_sessions()
        self.__dict__["_build_list"] = var_list
        self._set_waiting()

    def _initialize_in_sessions(self):
        """Make sessions of tf_keras, in graphs of TensorFlow 1, initialize all variables.

        There is no public way. tests/optimizers/test_tensorflow_1.py fails if it moves.
        """
        track = sys.modules[tf_keras.backend.get_value.__module__].track_variable
        listed = (*self.weights, *self._own_variables())
        unlisted = vars(self.inner_optimizer).values()  # such as a learning rate
        for variable in (*listed, *unlisted):
            if isinstance(variable, tf.Variable):
                track(variable)

    def _counter(self):
        return self.inner_optimizer.iterations

    def _serialize_inner(self):
        return tf_keras.optimizers.serialize(self.inner_optimizer)

    @property
    def variables(self):
        """The variables of the inner optimizer, a list that can also be called."""
        return checks.CallableList(self.weights)


class _Below(tf.__internal__.tracking.Trackable):
    """Restores what checkpoints of TensorFlow 2.0-2.2 have below `base_optimizer`.

    In those versions checkpoints had the inner optimizer as an object of its own. Now the
    wrapper takes its place, and TensorFlow restores an object from one place only. This
    object is only restored, never saved.
    """

    def __init__(self, wrapper):
        self._wrapper = wrapper

    def _lookup_dependency(self, *args, **kwargs):
        return self._wrapper.inner_optimizer._lookup_dependency(*args, **kwargs)

    @property
    def _deferred_dependencies(self):
        return self._wrapper.inner_optimizer._deferred_dependencies

    def _create_or_restore_slot_variable(self, *args, **kwargs):
        return self._wrapper._create_or_restore_slot_variable(*args, **kwargs)


class LegacyFace(_TFKerasFace, LEGACY_OPTIMIZER, _FAMILY_WRAPPER):
    """The face for legacy optimizers of tf_keras, which are OptimizerV2."""

    _HAS_AGGREGATE_GRAD = True
    _returns_operations = True
    _family = "legacy"
    _aggregation_off = {"experimental_aggregate_gradients": False}  # noqa: RUF012

    def aggregate_inner(self, gradients, variables):
        """Return the gradients aggregated over all replicas, and their variables."""
        inner = self.inner_optimizer
        pairs = inner._transform_unaggregated_gradients(list(zip(gradients, variables)))
        if self.aggregates_in_full and replica.is_alone():
            return checks.unzip(pairs)
        return checks.unzip(inner._aggregate_gradients(pairs))

    @property
    def aggregates_in_full(self):
        """Whether aggregation leaves the same gradients on each replica."""
        inner = self.inner_optimizer
        return (
            type(inner)._aggregate_gradients is LEGACY_OPTIMIZER._aggregate_gradients
            and _is_tf_keras(inner.gradient_aggregator)
        )

    def _prepare(self, variables, used):
        # As TensorFlow's class, which made no slots for variables without a gradient.
        if self._unchecked(used):
            self.build(used)
            self._note_checked(used)

    def _build_inner(self, variables):
        # The optimizer's own apply_gradients uses this name scope for its variables.
        with tf.name_scope(self.inner_optimizer._name):
            self.inner_optimizer._create_all_weights(variables)
        self._order_weights(variables)

    def _order_weights(self, variables):
        # If a checkpoint is restored first, the slots are made before the step counter,
        # variable by variable. Lists of weights need the order of a first step.
        inner = self.inner_optimizer
        if not inner._weights or inner._weights[0] is inner.iterations:
            return
        table = list(slots.table_of(inner))
        names = sorted(
            inner.get_slot_names(),
            key=lambda name: table.index(name) if name in table else len(table),
        )
        pairs = [(name, variable) for name in names for variable in variables]
        if isinstance(
            inner, tf_keras.optimizers.legacy.Ftrl
        ):  # makes both slots at once
            pairs = [(name, variable) for variable in variables for name in names]
        listed = [
            inner.get_slot(variable, name)
            for name, variable in pairs
            if name in inner._slots.get(_slot_key(variable), {})
        ]
        position = {id(slot): place for place, slot in enumerate(listed, 1)}
        first = [w for w in inner._weights if id(w) not in position]
        first.sort(key=lambda weight: weight is not inner.iterations)
        inner._weights[:] = [*first, *listed]

    def _compute_inner(self, loss, var_list, grad_loss, tape):
        return self.inner_optimizer._compute_gradients(
            loss, var_list, grad_loss, tape=tape
        )

    def _decayed_lr(self, var_dtype):
        return self.inner_optimizer._decayed_lr(var_dtype)

    def _get_hyperparameter(self, name):
        return self.inner_optimizer._get_hyper(name)

    def _set_hyperparameter(self, name, value):
        # A number reaches steps already traced, since hyperparameters are variables.
        self.inner_optimizer._set_hyper(name, value)

    def _aggregate_gradients(self, grads_and_vars):
        return self.inner_optimizer._aggregate_gradients(grads_and_vars)

    def _create_all_weights(self, var_list):
        self.inner_optimizer._create_all_weights(var_list)

    def _restore_slot_variable(self, slot_name, variable, slot_variable):
        return self.inner_optimizer._restore_slot_variable(
            slot_name, variable, slot_variable
        )

    def _create_or_restore_slot_variable(
        self, slot_variable_position, slot_name, variable
    ):
        return self.inner_optimizer._create_or_restore_slot_variable(
            slot_variable_position, slot_name, variable
        )

    def get_slot_names(self):
        """Return the slot names of the inner optimizer."""
        return self.inner_optimizer.get_slot_names()

    def get_slot(self, var, slot_name):
        """Return the slot variable `slot_name` of a model variable."""
        return self.inner_optimizer.get_slot(var, slot_name)

    def add_slot(self, var, slot_name, initializer="zeros", shape=None):
        """Return the slot variable of a model variable, made if it does not exist."""
        return self.inner_optimizer.add_slot(var, slot_name, initializer, shape)

    def add_weight(self, *args, **kwargs):
        """Return a new variable of the inner optimizer."""
        return self.inner_optimizer.add_weight(*args, **kwargs)


class NewFace(slots.ListedSlots, _TFKerasFace, OPTIMIZER, _FAMILY_WRAPPER):
    """The face for the newer optimizers of tf_keras, the default since 2.11."""

    _family = "new"
    # This class takes both; subclasses may have taken over the second from OptimizerV2.
    _aggregation_off = {  # noqa: RUF012
        "skip_gradients_aggregation": True,
        "experimental_aggregate_gradients": False,
    }

    def aggregate_inner(self, gradients, variables):
        """Return the gradients aggregated over all replicas, and their variables."""
        aggregate = checks.own_aggregation(self.inner_optimizer, OPTIMIZER)
        if aggregate is None and replica.is_alone():
            return gradients, variables
        if aggregate is None:
            aggregate = self.inner_optimizer.aggregate_gradients
        return checks.unzip(aggregate(list(zip(gradients, variables))))

    @property
    def aggregates_in_full(self):
        """Whether aggregation leaves the same gradients on each replica."""
        return checks.own_aggregation(self.inner_optimizer, OPTIMIZER) is None

    def _build_inner(self, variables):
        self.inner_optimizer.build(variables)

    def _hidden_variables(self):
        return [
            getattr(self.inner_optimizer, n)
            for n in tf_keras_files.HIDDEN
            if hasattr(self.inner_optimizer, n)
        ]

    def _prepare(self, variables, used):
        del used  # these optimizers are built on all variables, also without a gradient
        unchecked = self._unchecked(variables)
        if not unchecked:
            return
        self.build(variables)
        inner = self.inner_optimizer
        unknown = [
            checks.name_of(v)
            for v in unchecked
            if inner._var_key(v) not in inner._index_dict
        ]
        checks.refuse_unknown(unknown)
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
        raise ValueError(
            "The checkpoint was written by an optimizer of TensorFlow 2.0-2.10 or of "
            f"tf_keras.optimizers.legacy, but is restored into one of the newer kind, "
            f"{name}. Restore it by tf_lso.checkpoints.restore(path, model=model, "
            "optimizer=optimizer), or wrap the older kind: "
            f"tf_keras.optimizers.legacy.{name}."
        )

    def _slot_index(self, var):
        return self.inner_optimizer._index_dict[self.inner_optimizer._var_key(var)]

    def _new_slot(self, var, slot_name, initializer):
        initializer = tf_keras.initializers.get(initializer)
        return self.inner_optimizer.add_variable_from_reference(
            var, slot_name, initial_value=initializer(var.shape, var.dtype)
        )

    def add_weight(self, name, shape=(), dtype=None, initializer="zeros", **kwargs):
        """Return a new variable of the inner optimizer.

        Args:
          name: str.
          shape: tuple of int.
          dtype: dtype, defaults to float32.
          initializer: a tf_keras initializer or its name.
          **kwargs: further arguments of TensorFlow 2.0-2.15, which are ignored.
        """
        del kwargs
        return self.inner_optimizer.add_variable(
            tuple(shape), dtype=dtype, initializer=initializer, name=name
        )


def _slot_key(variable):
    """Return the key of a variable in an OptimizerV2's table of slots."""
    variable = getattr(variable, "_distributed_container", lambda: variable)()
    return variable._unique_id


def _is_tf_keras(function):
    return getattr(function, "__module__", "").split(".")[0] == "tf_keras"
