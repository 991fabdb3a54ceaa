"""The base class of the adapters between `LossScaleOptimizer` and an inner optimizer.

Each `LossScaleOptimizer` has one adapter. To support another family of optimizers, derive a
class from `Family` and define the abstract methods. The docstrings in `Family` apply to all
adapters.
"""

import abc
from typing import Any

import tensorflow as tf

from tf_lso.frameworks import keras2_private, keras_versions, tf_private
from tf_lso.frameworks import variables as variables_lib
from tf_lso.optimizers import manifest as manifest_lib
from tf_lso.optimizers import validation
from tf_lso.scaling import gradients as gradients_lib


def forwarded(name):
    """Return a property that reads the attribute `name` of a wrapper's inner optimizer."""
    doc = f"`{name}` of the inner optimizer."
    return property(lambda self: getattr(self.inner_optimizer, name), doc=doc)


def _sum_over_replicas(grads_and_vars):
    # For some variables of Keras 3's float8 layers, the "gradient" is the next value of the
    # variable. Each replica keeps its own next value, as Keras does without a wrapper.
    to_sum = [g for g, v in grads_and_vars if not gradients_lib.overwrites(v)]
    # `all_reduce` needs the device of each gradient. A gradient that no operation of this
    # replica has computed may have no device. `tf.identity` makes a copy that has one.
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


def load_by_wrapper(inner):
    """Make Keras load the state of the inner optimizer only through the wrapper.

    Files contain the state of the inner optimizer twice: with the wrapper and alone. Keras
    would also load the second copy, in the order of its arrays, even if the wrapper has refused
    the state or has sorted it.
    """
    for name in ("load_own_variables", "_load_own_variables"):
        if hasattr(inner, name):
            variables_lib.set_untracked(inner, name, lambda store: None)


class Family(abc.ABC):
    """The adapter between one LossScaleOptimizer and its inner optimizer."""

    # The name of the family: "keras3", "legacy" or "new".
    name: str
    # "keras" or "tf_keras".
    package: str
    base: type
    # The classes from which Keras expects a wrapper to derive.
    bases: tuple[type, ...]
    # The attributes that Keras or TensorFlow expects a wrapper to have.
    members: dict[str, Any]
    # The object with the methods `get_slot`, `add_slot` and so on. A legacy optimizer has these
    # methods itself. For other optimizers this object is a `slots.ListedSlots`.
    slots: Any
    returns_operations = False
    # Whether the inner optimizer sums duplicate rows of IndexedSlices itself, after clipping.
    sums_rows = False

    def __init__(self, inner):
        self.inner = inner
        # Maps ids to the checked variables. The dict keeps the variables alive, so that no
        # other object can get the same id.
        self._checked = {}

    @abc.abstractmethod
    def join(self, wrapper, loss_scale, name):
        """Prepare the inner optimizer and the wrapper, in the constructor of the wrapper."""

    # --- A step calls these methods in this order.

    def refuse_overridden(self, wrapper):  # noqa: B027
        """Raise RuntimeError if a program overrides a method that Keras 3 calls differently."""

    def compute_gradients(self, loss, var_list, grad_loss, tape):
        """Return a list of (scaled gradient, variable) pairs for a scaled loss."""
        return variables_lib.with_gradients(loss, var_list, grad_loss, tape)

    def prepare(self, wrapper, variables, used):
        """Build the optimizer for a step. Raise an error if it cannot update a variable.

        `used` contains the variables that have a gradient.
        """
        del used
        unchecked = [v for v in variables if id(v) not in self._checked]
        if unchecked:
            validation.check_variables(unchecked)
            # Even if the wrapper is marked as built, another thread may still be building it.
            tf_private.once_for_replicas(wrapper.build, variables)
            self._check_built(unchecked)
            self._checked.update({id(v): v for v in variables})

    @abc.abstractmethod
    def build(self, wrapper, variables):
        """Create the variables of the inner optimizer if they do not exist yet."""

    def _check_built(self, variables):  # noqa: B027
        """Raise an error if the built optimizer cannot update one of the variables."""

    def aggregate(self, gradients, variables):
        """Sum the gradients over all replicas. Return the sums and their variables."""
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        if replicas == 1 and self.aggregates_in_full:
            return gradients, variables
        aggregate = keras2_private.aggregation(self.inner) or _sum_over_replicas
        gradients = gradients_lib.divided(gradients)
        return validation.unzip(aggregate(list(zip(gradients, variables))))

    @property
    def aggregates_in_full(self):
        """Whether all replicas have the same gradients after `aggregate`."""
        return keras2_private.has_aggregation_of(type(self.inner), self.base)

    @abc.abstractmethod
    def apply(self, gradients, variables, *args, **kwargs):
        """Update the variables with unscaled gradients, in a replica context.

        `args` and `kwargs` are for the inner optimizer's `apply_gradients`. If
        `apply_gradients` has no parameter `name`, the argument `name` is ignored. Unless
        `returns_operations` is True, the result has no meaning.
        """

    @abc.abstractmethod
    def count_skipped(self):
        """Count a skipped step. Return the operations that add 1 to the step counters."""

    # --- Attributes.

    @abc.abstractmethod
    def counter(self):
        """Return the TensorFlow variable that counts steps."""

    @abc.abstractmethod
    def set_iterations(self, value):
        """Set the step counter. `value` is an int or a variable that contains an int."""

    def learning_rate(self):
        """Return the value of the wrapper's attribute `learning_rate`."""
        return self.inner.learning_rate

    def schedules(self):
        """Return {"learning_rate": schedule}, or {} if the learning rate is not a schedule."""
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

    def known_variables(self):
        """Return a pair (indices, key), with which the slots of a model variable are found.

        In each list of slots, the slot of a variable has the index `indices[key(variable)]`.
        """
        return {}, id

    def new_slot(self, var, slot_name, initializer):  # noqa: B027
        """Return a new slot variable for a model variable."""

    @abc.abstractmethod
    def weights(self):
        """Return the list of variables that the wrapper's attribute `weights` contains."""

    def variables(self):
        """Return the optimizer's variables in the order in which Keras saves them."""
        return self.weights()

    @abc.abstractmethod
    def layouts(self, scale_variables):
        """Return a list of the layouts that a file may have, and a list for `set_weights`.

        New files are written in the first layout of the first list. If several layouts in a
        list have the same order of slots, the layout with the most variables comes first. Some
        layouts contain the loss scale's variables, `scale_variables`.
        """

    # --- Files and checkpoints.

    def manifest(self, start, slots):
        """Return the manifest of a file that has `start` arrays before those of `slots`."""
        built = self.built_variables()
        return manifest_lib.Manifest(
            type(self.inner).__name__,
            self.name,
            start,
            self.head_names(),
            self.labels(slots),
            [*map(manifest_lib.path_of, built)],
            bool(built),
            [*map(self.known_variables()[1], built)],
        )

    def head_names(self):
        """Return the names of the inner optimizer's variables that precede its slots."""
        return ["iterations"]

    def labels(self, variables):
        """Return a pair (slot, index of the model variable) for each of `variables`."""
        built = self.built_variables()
        return manifest_lib.labels(self.inner, variables, built, self.slots.added)

    def expect(self, saved, own):
        """Prepare to restore a checkpoint. Raise ValueError if `saved` does not fit `own`."""
        self.slots.expect(saved, own)

    def forget(self):
        """Forget what `expect` prepared, because TensorFlow restores another checkpoint.

        Return a function that undoes this, for the case that tf_lso refuses that checkpoint.
        """
        return self.slots.forget()

    def discard_waiting(self):
        """Discard restored slots that wait for the build."""
        self.slots.discard_waiting()

    def slots_wait(self):
        """Return whether TensorFlow will restore slots only when the optimizer is built.

        tf_lso cannot read the values of these slots until the build, so a file or a copy would
        lack them.
        """
        # Legacy slots never wait: TensorFlow creates them when it restores a checkpoint.
        wait = getattr(self.slots, "wait", None)
        return bool(wait) and not self.built_variables() and wait()

    def order_slots(self, wrapper, variables):  # noqa: B027
        """Sort the slots in the order of the model variables, for files that name no slots."""

    def deep_copied(self, memo):
        """Return Python's deep copy, or None if the copy must be made from the config."""
        del memo

    def serialize(self):
        """Return the serialized inner optimizer: its config and the name of its class."""
        return keras_versions.public(self.package).optimizers.serialize(self.inner)

    def dependencies(self, children, save_type, **kwargs):
        """Return what TensorFlow saves for the wrapper in place of the dict `children`.

        `save_type` is "checkpoint" or "savedmodel".
        """
        del save_type, kwargs
        return children

    @abc.abstractmethod
    def dependency(self, name, children):
        """Return the object into which TensorFlow restores the entry `name`, or None.

        `children` is the dict that `dependencies` returned for a checkpoint.
        """
