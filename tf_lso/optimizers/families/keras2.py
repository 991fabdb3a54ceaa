"""The base class of the adapters to Keras 2 optimizers, and the adapter to the newer ones."""

import inspect

import tensorflow as tf

from tf_lso.frameworks import hyperparameters, keras_versions, tf_private
from tf_lso.frameworks import keras2_private as private
from tf_lso.frameworks import variables as variables_lib
from tf_lso.optimizers import slots, state, validation
from tf_lso.optimizers.families import family


class Keras2(family.Family):
    """The base class of the adapters to the legacy and the newer optimizers of Keras 2.

    Checkpoints have the same layout as those of Keras 2's own LossScaleOptimizer. Such a
    checkpoint contains the dependencies of the inner optimizer and also the loss scale.
    """

    sums_rows = True
    # The names of checkpoint entries that only optimizers of a newer family write.
    newer_names: tuple[str, ...]
    # Keyword arguments that tell `apply_gradients` not to aggregate gradients over replicas.
    # The method of the inner optimizer must accept at least one of them.
    without_aggregation: tuple[tuple[str, bool], ...]

    def __init__(self, inner):
        super().__init__(inner)
        self._built = []
        self._keywords(None)

    def _keywords(self, name):
        parameters = inspect.signature(self.inner.apply_gradients).parameters
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        named = {"name": name} if takes_any or "name" in parameters else {}
        for keyword, value in self.without_aggregation:
            if takes_any or keyword in parameters:
                return {keyword: value, **named}
        (keyword, _), *_ = self.without_aggregation
        raise TypeError(
            f"apply_gradients() of {type(self.inner).__name__} does not accept '{keyword}', "
            "which LossScaleOptimizer needs since it sums gradients over replicas itself. "
            "Add the argument and pass it on to the base class."
        )

    def join(self, wrapper, loss_scale, name):
        del name
        family.load_by_wrapper(self.inner)
        tf_private.store_instead(wrapper, self.inner)
        if wrapper.dynamic or loss_scale.named_variables():
            # In checkpoints, the loss scale is a dependency of the inner optimizer. If
            # `compile` wraps the inner optimizer again, the new loss scale must replace the
            # earlier one: TensorFlow refuses two entries of one name (tensorflow#48862).
            tf_private.track(wrapper, loss_scale, "loss_scale", overwrite=True)
        self._below = _Below(self.inner, wrapper)
        self._initialize_in_sessions(v for _, v in loss_scale.named_variables())

    def _initialize_in_sessions(self, others=()):
        """Make Keras 2 initialize the optimizer's variables and `others` in its sessions."""
        # `weights` lacks some variables that the inner optimizer has as attributes.
        attributes = vars(self.inner).values()
        values = (*self.weights(), *attributes, *others)
        variables = [v for v in values if isinstance(v, tf.Variable)]
        private.initialize_in_sessions(self.package, variables)

    # --- A step.

    def build(self, wrapper, variables):
        del wrapper
        strategy = variables_lib.strategy_of(variables)
        with variables_lib.building, tf.init_scope(), variables_lib.scope_of(strategy):
            self._build_inner(variables)
            self._initialize_in_sessions()
        self._built = variables

    def apply(self, gradients, variables, *args, name=None, **kwargs):
        keywords = self._keywords(name)
        # `apply_gradients` gets the first element of `args` as the argument `name`.
        if args:
            keywords.pop("name", None)
        pairs = list(zip(gradients, variables))
        return self.inner.apply_gradients(pairs, *args, **{**keywords, **kwargs})

    def count_skipped(self):
        return [self.counter().assign_add(1, read_value=False)]

    # --- Attributes and variables.

    def counter(self):
        return self.inner.iterations

    def set_iterations(self, value):
        if isinstance(value, tf.Variable):
            # Make the inner optimizer count its steps in the variable `value` itself.
            self.inner.iterations = value
        else:
            self.counter().assign(tf.cast(value, tf.int64))

    def built_variables(self):
        return self._built

    def weights(self):
        # `variables` is a method of some optimizers, and a property of others.
        variables = self.inner.variables
        return list(variables() if callable(variables) else variables)

    def layouts(self, scale_variables):
        # Read the counter first: an OptimizerV2 then creates it and adds it to `weights`.
        counter = self.counter()
        slots = [v for v in self.weights() if v is not counter]
        hidden = private.unlisted_variables(self.inner)
        layouts = [
            state.Layout("weights", [counter], [*slots, *hidden], scale_variables),
            state.Layout("weights", [counter], slots),
        ]
        return layouts, layouts

    # --- Files and checkpoints.

    def dependency(self, name, children):
        if name in self.newer_names:
            inner = type(self.inner)
            raise ValueError(
                "The checkpoint was written by an optimizer of a newer kind than "
                f"{inner.__module__}.{inner.__qualname__}: it has state under {name!r}. "
                "Restore it with tf_lso.checkpoints.restore(path, model=model, "
                "optimizer=optimizer), or wrap an optimizer of the kind that was saved."
            )
        return self._below if name == "base_optimizer" else children.get(name)


class _Below(tf_private.Dependencies, tf_private.trackable()):  # type: ignore[misc]
    """An object that restores the inner optimizer from a checkpoint of TensorFlow 2.0-2.2.

    In these checkpoints the wrapper and the inner optimizer are separate objects, and the
    inner optimizer has the name `base_optimizer`. But tf_lso makes TensorFlow restore the
    inner optimizer in the place of the wrapper, and TensorFlow restores each object only
    once. So TensorFlow restores a `_Below` object under the name `base_optimizer`, and this
    object passes the values on to the inner optimizer.
    """

    def __init__(self, inner, wrapper):
        self._inner, self._wrapper = inner, wrapper

    def _dependency(self, name, known):
        return tf_private.child(self._inner, name, known)

    def _awaited_dependencies(self):
        return tf_private.deferred(self._inner)

    def _create_or_restore_slot_variable(self, *args, **kwargs):
        return tf_private.restore_slot(self._wrapper, *args, **kwargs)


def _refuse_legacy_slots(self, *args, **kwargs):
    """Raise ValueError. TensorFlow calls this method if it finds slots of an OptimizerV2."""
    del args, kwargs
    name = type(self.inner_optimizer).__name__
    legacy = f"{keras_versions.keras2_spelled(self._family.package)}.optimizers.legacy"
    raise ValueError(
        "The checkpoint was written by an optimizer of TensorFlow 2.0-2.10 or of "
        f"{legacy}, but is restored into one of the newer "
        f"kind, {name}. Restore it with tf_lso.checkpoints.restore(path, model=model, "
        f"optimizer=optimizer), or wrap the older kind: {legacy}.{name}. "
        "See `tf-lso help part`"
    )


class Newer(Keras2):
    """The adapter to the newer optimizers of Keras 2, the default since TensorFlow 2.11."""

    name = "new"
    newer_names = ("_trainable_variables",)
    without_aggregation = (
        ("skip_gradients_aggregation", True),
        # The optimizer class of an old program may accept only this keyword.
        ("experimental_aggregate_gradients", False),
    )
    members = {  # noqa: RUF012
        "aggregate_gradients": family.forwarded("aggregate_gradients"),
        "jit_compile": property(
            lambda self: self.inner_optimizer.jit_compile,
            lambda self, value: setattr(self.inner_optimizer, "jit_compile", value),
            doc="Whether the inner optimizer compiles its update with XLA; may be set.",
        ),
        "_create_or_restore_slot_variable": _refuse_legacy_slots,
        **slots.HIDDEN_FROM_CHECKPOINTS,
    }

    def __init__(self, inner):
        super().__init__(inner)
        self.slots = slots.ListedSlots(self, private.own_variables(inner))

    def join(self, wrapper, loss_scale, name):
        super().join(wrapper, loss_scale, name)
        self.slots.restore_by_path()

    def compute_gradients(self, loss, var_list, grad_loss, tape):
        if grad_loss is not None:
            return super().compute_gradients(loss, var_list, grad_loss, tape)
        if not callable(var_list):
            var_list = tf.nest.flatten(var_list)
        return self.inner.compute_gradients(loss, var_list, tape=tape)

    def build(self, wrapper, variables):
        # Take the lock before the check, because another thread may be building the optimizer.
        with variables_lib.building:
            if self._built:
                known, key = self.known_variables()
                if all(key(variable) in known for variable in variables):
                    return
            super().build(wrapper, variables)

    def _build_inner(self, variables):
        # `being_built` compares `_built` with the variables of a restored checkpoint.
        before, self._built = self._built, variables
        try:
            with self.slots.being_built():
                self.inner.build(variables)
        except BaseException:
            self._built = before
            raise

    def dependency(self, name, children):
        return self.slots.restored_once(name, super().dependency(name, children))

    def _check_built(self, variables):
        legacy = f"{keras_versions.keras2_spelled(self.package)}.optimizers.legacy.SGD"
        remedy = f"wrap the legacy class, such as {legacy}"
        validation.check_known(variables, *self.known_variables(), remedy)

    def _rate_or_schedule(self):
        return hyperparameters.rate_or_schedule(self.inner)

    def decayed_lr(self, var_dtype):
        rate = self._rate_or_schedule()
        if callable(rate) and not isinstance(rate, tf.Variable):
            rate = rate(self.counter())
        return tf.cast(rate, var_dtype)

    def known_variables(self):
        return private.known_variables(self.inner)

    def new_slot(self, var, slot_name, initializer):
        initializer = keras_versions.public(self.package).initializers.get(initializer)
        return self.inner.add_variable_from_reference(
            var, slot_name, initial_value=initializer(var.shape, var.dtype)
        )


def of_package(package):
    """Return the adapter class for the newer optimizers of "keras" or "tf_keras"."""
    base = keras_versions.optimizer_bases(package)["new"]
    own_wrapper = keras_versions.public(package).mixed_precision.LossScaleOptimizer
    bases = (tf_private.delegating_trackable(), base, own_wrapper)
    return type("Newer", (Newer,), {"package": package, "base": base, "bases": bases})
