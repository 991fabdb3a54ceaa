"""The base class of the adapters between `LossScaleOptimizer` and an inner optimizer.

Each `LossScaleOptimizer` has one adapter. To support another family of optimizers, derive a
class from `Family` and define its abstract methods. The docstrings of this class hold for
all adapters. Comments in the adapters say where they do something special.
"""

import abc
from typing import Any

import tensorflow as tf

from tf_lso.frameworks import keras2_private, keras_versions, model_files, tf_private
from tf_lso.frameworks import variables as variables_lib
from tf_lso.optimizers import state, validation
from tf_lso.scaling import gradients as gradients_lib


def forwarded(name):
    """Return a property of the wrapper that reads an attribute of the inner optimizer."""
    doc = f"`{name}` of the inner optimizer."
    return property(lambda self: getattr(self.inner_optimizer, name), doc=doc)


def _sum_over_replicas(grads_and_vars):
    # If a gradient is the next value of its variable, each replica keeps its own gradient. An
    # optimizer that is not wrapped does the same.
    to_sum = [g for g, v in grads_and_vars if not gradients_lib.overwrites(v)]
    # The reduction needs the device of each gradient. A gradient that was not computed by an
    # operation of this replica may have none.
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
    """The adapter to one inner optimizer, which is its attribute `inner`.

    The constructor raises if the optimizer cannot be wrapped.
    """

    name: str  # the name of the family: "keras3", "legacy" or "new"
    package: str  # "keras" or "tf_keras", see `keras_versions`
    base: type  # the base class of all optimizers of the family
    bases: tuple[type, ...]  # the classes that a wrapper must be an instance of
    members: dict[str, Any]  # attributes that Keras or TensorFlow expects
    slots: Any  # has the slot methods of an OptimizerV2, see `slots.ListedSlots`
    returns_operations = False  # whether the inner optimizer's updates are operations
    # Whether the inner optimizer itself clips IndexedSlices and then sums duplicate rows.
    sums_rows = False
    # Whether the slots were made in several builds, none of which was for all variables.
    is_built_in_parts = False

    def __init__(self, inner):
        self.inner = inner
        # id -> variable that `prepare` has checked. As long as a variable is an entry, no other
        # object can get its id.
        self._checked = {}

    @abc.abstractmethod
    def take_over(self, wrapper, loss_scale, name):
        """Run the constructor of the wrapper's base class, and adapt the inner optimizer."""

    # --- A step calls these methods in this order.

    def refuse_in_fit(self, cls):  # noqa: B027
        """Raise if Keras 3's `fit` is running and would ignore methods of the class `cls`."""

    def compute_gradients(self, loss, var_list, grad_loss, tape):
        """Return (gradient, variable) pairs for a scaled loss, as `minimize` needs them."""
        return variables_lib.with_gradients(loss, var_list, grad_loss, tape)

    def prepare(self, wrapper, variables, used):
        """Build the wrapper, and raise if the optimizer cannot update a variable.

        Args:
          wrapper: the LossScaleOptimizer.
          variables: list of all variables of the step.
          used: list of the variables that have a gradient.
        """
        del used
        unchecked = [v for v in variables if id(v) not in self._checked]
        if unchecked:
            validation.check_variables(unchecked)
            # Call `build` even if the wrapper is marked as built, since another thread may
            # still be building it.
            tf_private.once_for_replicas(wrapper.build, variables)
            self._check_built(unchecked)
            self._checked.update({id(v): v for v in variables})

    @abc.abstractmethod
    def build(self, wrapper, variables):
        """Create the variables of the inner optimizer unless they exist."""

    def _check_built(self, variables):  # noqa: B027
        """Raise if the optimizer, after the build, cannot update one of the variables."""

    def aggregate(self, gradients, variables):
        """Sum the gradients over all replicas. Return the lists of sums and of variables."""
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        if self.aggregates_in_full and replicas == 1:
            return gradients, variables
        aggregate = keras2_private.aggregation(self.inner) or _sum_over_replicas
        return validation.unzip(aggregate(list(zip(gradients, variables))))

    @property
    def aggregates_in_full(self):
        """Whether all replicas have the same gradients after `aggregate`."""
        return keras2_private.has_aggregation_of(type(self.inner), self.base)

    @abc.abstractmethod
    def apply(self, gradients, variables, *args, **kwargs):
        """Update the variables. This runs in a replica context.

        Args:
          gradients: list of unscaled gradients that `aggregate` returned.
          variables: list of their variables.
          *args: further positional arguments of the inner optimizer's `apply_gradients`.
          **kwargs: keyword arguments of that method. `name` is dropped if the method has no
            such parameter.

        Returns:
          An operation if `returns_operations` is True.
        """

    @abc.abstractmethod
    def count_skipped(self):
        """Count a skipped step. Return the list of operations that count it."""

    # --- Attributes.

    @abc.abstractmethod
    def counter(self):
        """Return the TensorFlow variable that counts steps."""

    @abc.abstractmethod
    def set_iterations(self, value):
        """Set `iterations`."""

    def learning_rate(self):
        """Return the value of the wrapper's attribute `learning_rate`."""
        return self.inner.learning_rate

    def schedules(self):
        """Return {key of the config: schedule}. If the rate is a number, the dict is empty."""
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
        """Return a dict and a function for the variables the optimizer was built for.

        The dict is {key: index in the lists of slots}. The function returns the key of a
        variable. `ListedSlots` needs this method and `new_slot`.
        """

    def new_slot(self, var, slot_name, initializer):  # noqa: B027
        """Make a slot of a model variable and return it."""

    @abc.abstractmethod
    def weights(self):
        """Return the list of variables that an OptimizerV2 has in `weights`, in its order."""

    def variables(self):
        """Return the list of variables in the order in which this Keras saves them."""
        return self.weights()

    @abc.abstractmethod
    def layouts(self, scale_variables):
        """Return the layouts of files and those of `set_weights`.

        Args:
          scale_variables: list of the variables of the loss scale. Layouts contain them.

        Returns:
          Two lists of `state.Layout`. The first list has the layouts that a file may have,
          and files are written in the first of them. The second list has the layouts that
          `set_weights` accepts. If several layouts of a list have the same `Layout.order`, the
          first of them contains all state, and the others contain less.
        """

    # --- Files and checkpoints.

    def slots_wait(self):
        """Return whether slots of a checkpoint wait in TensorFlow for the build.

        Slots that wait there cannot be read, so a file that is saved before the build would
        lack them.
        """
        wait = getattr(self.slots, "wait", None)  # in an OptimizerV2 no slots wait
        return bool(wait) and not self.built_variables() and wait()

    def order_slots(self, wrapper, variables):  # noqa: B027
        """Put the slots into the order of a model's variables. This is called before saving."""

    def deep_copied(self, memo):
        """Return a copy of the inner optimizer that no wrapper holds.

        Return None if the copy must be made from the config.
        """
        del memo

    def serialize(self):
        """Return the config of the inner optimizer, with the name of its class.

        Raise ValueError if Keras is writing a file that would lack slots that wait.
        """
        file = model_files.written()
        # For a .keras file Keras calls `save_own_variables`, which raises the same error.
        if file == ".h5" and self.slots_wait():
            raise ValueError(state.BUILD_FIRST)
        if file and self.package not in keras_versions.installed:
            self.tell_what_lacks(file)
        return keras_versions.public(self.package).optimizers.serialize(self.inner)

    def tell_what_lacks(self, file):  # noqa: B027
        """Warn of what a model's file, ".h5" or ".keras", will lack without `install()`."""

    def dependencies(self, children, save_type, **kwargs):
        """Return the {name: object} that a checkpoint or SavedModel saves below the wrapper.

        Args:
          children: the {name: object} that TensorFlow finds by itself.
          save_type: "checkpoint" or "savedmodel".
          **kwargs: further arguments that TensorFlow passes.
        """
        del save_type, kwargs
        return children

    @abc.abstractmethod
    def dependency(self, name, children):
        """Return the object that a checkpoint restores under `name`, or None.

        `children` is the result of `dependencies` for a checkpoint.
        """
