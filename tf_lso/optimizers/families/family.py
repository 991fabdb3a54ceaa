"""What the wrapper needs of a family of optimizers: an adapter to one inner optimizer.

`LossScaleOptimizer` holds the adapter of its inner optimizer. To support one more family,
derive a class from `Family` and define what is abstract here. This file documents the
methods of all adapters; the adapters say only what is particular to them.
"""

import abc
from typing import Any

import tensorflow as tf

from tf_lso.frameworks import keras_versions, tf_private
from tf_lso.frameworks import variables as variables_lib
from tf_lso.optimizers import validation
from tf_lso.scaling import gradients as gradients_lib


def forwarded(name):
    """Return a property that returns an attribute of the inner optimizer."""
    doc = f"`{name}` of the inner optimizer."
    return property(lambda self: getattr(self.inner_optimizer, name), doc=doc)


# The method that aggregates: of OptimizerV2, also of Horovod's optimizers of all families,
# and of the newer optimizers of Keras 2. Those of Keras 3 have none.
_AGGREGATIONS = ("_aggregate_gradients", "aggregate_gradients")


def _sum_over_replicas(grads_and_vars):
    # Next values of variables are not aggregated: each replica keeps its own, as with the
    # bare optimizer.
    to_sum = [g for g, v in grads_and_vars if not gradients_lib.overwrites(v)]
    # A gradient that no operation of this replica made may have no device, which the
    # reduction needs.
    to_sum = tf.nest.map_structure(
        lambda tensor: tensor if tensor.device else tf.identity(tensor),
        to_sum,
        expand_composites=True,
    )
    context = tf.distribute.get_replica_context()
    summed = iter(context.all_reduce(tf.distribute.ReduceOp.SUM, to_sum))
    return [
        (g if gradients_lib.overwrites(v) else next(summed), v)
        for g, v in grads_and_vars
    ]


class Family(abc.ABC):
    """The adapter to one inner optimizer, `inner`; its constructor raises if it cannot be."""

    name: str  # what configs call the family: "keras3", "legacy" or "new"
    package: str  # its Keras, "keras" or "tf_keras"; see `keras_versions`
    base: type  # its optimizer class, which all of the family derive from
    bases: tuple[type, ...]  # the classes that a wrapper must be an instance of
    members: dict[str, Any]  # what Keras or TensorFlow looks for on an optimizer
    slots: Any  # has the slot methods of an OptimizerV2, see `slots.ListedSlots`
    returns_operations = False  # whether the inner optimizer's updates are operations
    # Whether it adds up rows of equal indices of slices, after it has clipped them.
    sums_rows = False
    # Whether the order of the slots is that of several builds, none for all variables.
    is_built_in_parts = False

    def __init__(self, inner):
        self.inner = inner
        self._checked = {}  # id -> variable that `prepare` has checked; keeps ids valid

    @abc.abstractmethod
    def take_over(self, wrapper, loss_scale, name):
        """Construct the wrapper as its base class does, and change the inner optimizer."""

    # --- A step, in this order.

    def refuse_in_fit(self, cls):  # noqa: B027
        """Raise if `fit` runs that would ignore methods of `cls`, a user's class."""

    def compute_gradients(self, loss, var_list, grad_loss, tape):
        """Return (gradient, variable) pairs of a scaled loss, as `minimize` does."""
        return variables_lib.with_gradients(loss, var_list, grad_loss, tape)

    def prepare(self, wrapper, variables, used):
        """Build the wrapper, and refuse variables that the optimizer cannot update.

        `variables` are all that were given, `used` those that have a gradient.
        """
        del used
        unchecked = [v for v in variables if id(v) not in self._checked]
        if unchecked:
            validation.check_variables(unchecked)
            # Also if it claims to be built: another thread may be building it.
            tf_private.once_for_replicas(wrapper.build, variables)
            self._check_built(unchecked)
            self._checked.update({id(v): v for v in variables})

    @abc.abstractmethod
    def build(self, wrapper, variables):
        """Create the variables of the inner optimizer, once: the wrapper's `build`."""

    def _check_built(self, variables):  # noqa: B027
        """Raise if the optimizer, now built, cannot update one of the variables."""

    def aggregate(self, gradients, variables):
        """Return the gradients aggregated over all replicas, and their variables."""
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        if self.aggregates_in_full and replicas == 1:
            return gradients, variables
        methods = (getattr(self.inner, name, None) for name in _AGGREGATIONS)
        aggregate = next(filter(None, methods), _sum_over_replicas)
        return validation.unzip(aggregate(list(zip(gradients, variables))))

    @property
    def aggregates_in_full(self):
        """Whether aggregation leaves the same gradients on each replica."""
        return all(
            getattr(type(self.inner), name, None) is getattr(self.base, name, None)
            for name in _AGGREGATIONS
        )

    @abc.abstractmethod
    def apply(self, gradients, variables, *args, **kwargs):
        """Update the variables, in replica context, by aggregated, unscaled gradients.

        `args` and `kwargs` are for the inner optimizer's `apply_gradients`; `name` is one
        that it may lack. Return an operation if `returns_operations`.
        """

    @abc.abstractmethod
    def count_skipped(self):
        """Count a skipped step; return the operations that do it, a list."""

    # --- Attributes.

    @abc.abstractmethod
    def counter(self):
        """Return the TensorFlow variable that counts steps."""

    @abc.abstractmethod
    def set_iterations(self, value):
        """Set `iterations`."""

    def learning_rate(self):
        """Return what `learning_rate` of the wrapper is."""
        return self.inner.learning_rate

    def schedules(self):
        """Return {key of the config: learning rate schedule}, empty if there is none."""
        rate = self._rate_or_schedule()
        is_schedule = callable(rate) and hasattr(rate, "get_config")
        return {"learning_rate": rate} if is_schedule else {}

    def _rate_or_schedule(self):
        return self.inner.learning_rate

    @abc.abstractmethod
    def decayed_lr(self, var_dtype):
        """Return the learning rate of the next step."""

    # --- Variables.

    @abc.abstractmethod
    def built_variables(self):
        """Return the model variables that the optimizer was built for."""

    def known_variables(self):  # noqa: B027
        """Return {key: place in the lists of slots}, and a function, variable -> key."""

    def new_slot(self, var, slot_name, initializer):  # noqa: B027
        """Return a new slot of a variable. This and the last are for `ListedSlots`."""

    @abc.abstractmethod
    def weights(self):
        """Return the variables that an OptimizerV2 has in `weights`, in its order."""

    def variables(self):
        """Return the variables that Keras saves, in the family's order."""
        return self.weights()

    @abc.abstractmethod
    def layouts(self, scale_variables):
        """Return two lists of `state.Layout`, with all state in the first of each order.

        Those that files may have, with the one that is written first; and those that
        `set_weights` takes. `scale_variables` are to be in them.
        """

    # --- Files and checkpoints.

    def slots_wait(self):
        """Whether slots of a checkpoint wait in TensorFlow for the build, a bool.

        Nothing else can read them, so nothing that is saved before the build has them.
        """
        wait = getattr(self.slots, "wait", None)  # an OptimizerV2 makes slots at once
        return bool(wait) and not self.built_variables() and wait()

    def order_slots(self, wrapper, variables):  # noqa: B027
        """Order the slots as a model lists its variables, since it is to be saved."""

    def deep_copied(self, memo):
        """Return an equal inner optimizer that nobody wraps; None if its config must do."""
        del memo

    def serialize(self):
        """Return the config of the inner optimizer, with the name of its class."""
        return keras_versions.public(self.package).optimizers.serialize(self.inner)

    def dependencies(self, children, save_type, **kwargs):
        """Return what a checkpoint or a SavedModel holds of the wrapper, by names.

        `children` is what TensorFlow itself finds; `save_type` tells one from the other.
        """
        del save_type, kwargs
        return children

    @abc.abstractmethod
    def dependency(self, name, children):
        """Return the object below which a checkpoint has `name`, or None.

        `children` is what `dependencies` has returned for a checkpoint.
        """
