"""The base class of the adapters between `LossScaleOptimizer` and an inner optimizer.

Each `LossScaleOptimizer` has one adapter. To support another family of optimizers, derive a
class from `Family` and define the abstract methods. The docstrings in `Family` apply to all
adapters. Comments in the adapters explain what differs in a family.
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
    # Sum only real gradients. For some variables of Keras 3's float8 layers, the "gradient"
    # is the next value of the variable. Each replica keeps its own next value, as Keras does
    # without a wrapper.
    to_sum = [g for g, v in grads_and_vars if not gradients_lib.overwrites(v)]
    # `all_reduce` needs the device of each gradient. A gradient may lack a device if it was
    # not computed by an operation of this replica. `tf.identity` returns a copy that has a
    # device.
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


def load_by_wrapper(inner, wrapper):
    """Make Keras load the state of the inner optimizer only through the wrapper.

    Files contain the state of the inner optimizer twice: with the wrapper and alone. Keras
    would load it a second time by its order, even if the wrapper has refused it or has sorted
    it.
    """

    def load(store):
        wrapper._load_inner_variables(store)

    for name in ("load_own_variables", "_load_own_variables"):
        if hasattr(inner, name):
            variables_lib.set_untracked(inner, name, load)


class Family(abc.ABC):
    """The adapter between one LossScaleOptimizer and its inner optimizer.

    The attribute `inner` is the inner optimizer. The constructor raises an error if the
    optimizer cannot be wrapped.
    """

    # `name` is the name of the family: "keras3", "legacy" or "new".
    name: str
    # `package` is the package that defines the optimizers of the family: "keras" or
    # "tf_keras".
    package: str
    # `base` is the base class of all optimizers of the family.
    base: type
    # `bases` contains the classes from which Keras expects a wrapper to derive.
    bases: tuple[type, ...]
    # `members` contains the attributes that Keras or TensorFlow expects a wrapper to have.
    # The dict maps the name of each attribute to its value.
    members: dict[str, Any]
    # `slots` is the object that has the methods `get_slot`, `add_slot` and so on. A legacy
    # optimizer has these methods itself, so `slots` is the inner optimizer. For all other
    # optimizers, `slots` is a `slots.ListedSlots` of tf_lso.
    slots: Any
    # `returns_operations` says whether `apply` returns an operation.
    returns_operations = False
    # `sums_rows` says whether the inner optimizer itself sums duplicate rows of IndexedSlices.
    # If so, a step passes the unsummed rows to the inner optimizer, because the inner
    # optimizer must clip each row before the summation.
    sums_rows = False

    def __init__(self, inner):
        self.inner = inner
        # Maps the id of each variable that `prepare` has checked to the variable. The entry
        # keeps the variable alive, so no other object can get the same id.
        self._checked = {}

    @abc.abstractmethod
    def take_over(self, wrapper, loss_scale, name):
        """Prepare the wrapper and the inner optimizer for their work together.

        The constructor of the wrapper calls this method. Each adapter does here what its
        family needs. For instance, the adapter to Keras 3 calls the constructor of Keras's
        optimizer class for the wrapper. `name` is the name of the wrapper.
        """

    # --- A step calls these methods in this order.

    def refuse_overridden(self, wrapper):  # noqa: B027
        """Raise RuntimeError if `scale_loss` must not be used with this wrapper.

        A subclass or the program may have replaced a method that `fit` of TensorFlow
        2.4-2.15 called but Keras 3, which calls `scale_loss`, does not call in the same way.
        In families other than Keras 3, this method does nothing.
        """

    def compute_gradients(self, loss, var_list, grad_loss, tape):
        """Return a list of (scaled gradient, variable) pairs for a scaled loss.

        The wrapper's methods `minimize` and `compute_gradients` call this method.
        """
        return variables_lib.with_gradients(loss, var_list, grad_loss, tape)

    def prepare(self, wrapper, variables, used):
        """Build the optimizer for a step. Raise an error if it cannot update a variable.

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
        """Create the variables of the inner optimizer if they do not exist yet."""

    def _check_built(self, variables):  # noqa: B027
        """Raise an error if the built optimizer cannot update one of the variables."""

    def aggregate(self, gradients, variables):
        """Sum the gradients over all replicas.

        Return a list of the sums and a list of their variables.
        """
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
        """Update the variables. A step calls this method in a replica context.

        Args:
          gradients: list of unscaled gradients that `aggregate` returned.
          variables: list with the variable of each gradient.
          *args: further positional arguments of the inner optimizer's `apply_gradients`.
          **kwargs: keyword arguments of the same method. If the method has no parameter
            `name`, the argument `name` is ignored.

        Returns:
          An operation if `returns_operations` is True. Otherwise the result has no meaning.
        """

    @abc.abstractmethod
    def count_skipped(self):
        """Count a skipped step in the step counters of the inner optimizer.

        Return a list of the operations that add 1 to the counters.
        """

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
        """Return a dict that maps "learning_rate" to the learning rate schedule.

        If the learning rate is not a schedule, the dict is empty. A copy of the optimizer is
        made from this schedule, and not from the schedule's config.
        """
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
        """Return a pair (indices, key), with which the slots of a model variable are found.

        `key` is a function that returns the key of a model variable. `indices` is a dict that
        maps the key of each variable for which the optimizer was built to an index. The
        optimizer keeps its slots in lists, one list for each slot name. The slot of the
        variable has this index in each list.

        Only adapters that use `slots.ListedSlots` define this method and `new_slot`.
        """

    def new_slot(self, var, slot_name, initializer):  # noqa: B027
        """Make a slot variable for a model variable, and return the slot variable."""

    @abc.abstractmethod
    def weights(self):
        """Return the list of variables that the wrapper's attribute `weights` contains."""

    def variables(self):
        """Return the optimizer's variables in the order in which Keras saves them."""
        return self.weights()

    @abc.abstractmethod
    def layouts(self, scale_variables):
        """Return the layouts in which the optimizer's variables can be saved and loaded.

        A layout is the order of the optimizer's variables in a list of saved arrays.

        Args:
          scale_variables: list of the loss scale's variables. Some layouts contain them.

        Returns:
          Two lists of `state.Layout`. The first list contains the layouts that a file may
          have. New files are written in the first layout of this list. The second list
          contains the layouts of the arrays that `set_weights` accepts. If several layouts
          in a list have the same order of slots (`Layout.order`), the layout with the most
          variables comes first.
        """

    # --- Files and checkpoints.

    def manifest(self, start, slots):
        """Return the `Manifest` of the optimizer.

        Args:
          start: int, how many arrays of a file precede the arrays of the slots.
          slots: list of the slot variables, in the order of the file.
        """
        return manifest_lib.Manifest(
            type(self.inner).__name__,
            self.name,
            start,
            self.head_names(),
            self.labels(slots),
            bool(self.built_variables()),
        )

    def head_names(self):
        """Return the names of the inner optimizer's variables that precede its slots."""
        return ["iterations"]

    def labels(self, variables):
        """Return a pair (slot, path of the model variable) for each of `variables`."""
        return manifest_lib.labels(self.inner, variables, self.built_variables())

    def expect(self, saved, own):
        """Prepare the slots for a checkpoint that TensorFlow is about to restore.

        Args:
          saved: the `Manifest` of the checkpoint.
          own: the `Manifest` of this optimizer.

        Raises:
          ValueError: if the checkpoint does not fit the optimizer.
        """
        self.slots.expect(saved, own)

    def forget(self):
        """Forget what `expect` prepared, because TensorFlow restores another checkpoint."""
        self.slots.forget()

    def slots_wait(self):
        """Return whether TensorFlow will restore slots only when the optimizer is built.

        This is the case if a checkpoint was restored before the build. tf_lso cannot read
        the values of these slots until the build, so a file or a copy would lack them.
        """
        # `ListedSlots.wait` returns whether TensorFlow holds values for slots that do not
        # exist yet. A legacy optimizer has no such method, because TensorFlow creates its
        # slots as soon as a checkpoint is restored.
        wait = getattr(self.slots, "wait", None)
        return bool(wait) and not self.built_variables() and wait()

    def order_slots(self, wrapper, variables):  # noqa: B027
        """Sort the slots in the order of the model variables `variables`.

        Callers do this before they save a file, because the file contains the slots as a list
        without names.
        """

    def deep_copied(self, memo):
        """Return Python's deep copy of the inner optimizer without the wrapper, or None.

        Only legacy optimizers have such a copy. Keras 3 makes copies of its own optimizers from
        their configs, too, and Python cannot copy the newer optimizers of Keras 2. If the
        result is None, the caller makes the copy from the inner optimizer's config.
        """
        del memo

    def serialize(self):
        """Return the serialized inner optimizer: its config and the name of its class."""
        return keras_versions.public(self.package).optimizers.serialize(self.inner)

    def dependencies(self, children, save_type, **kwargs):
        """Return a dict of the objects that TensorFlow saves for the wrapper.

        Args:
          children: dict that maps names to objects. Without this method, TensorFlow would
            save these objects.
          save_type: "checkpoint" or "savedmodel".
          **kwargs: further arguments that TensorFlow passes.

        Returns:
          A dict that maps names to objects.
        """
        del save_type, kwargs
        return children

    @abc.abstractmethod
    def dependency(self, name, children):
        """Return the object into which TensorFlow restores the entry `name` of a checkpoint.

        Return None if there is no such object. `children` is the dict that `dependencies`
        returned for a checkpoint.
        """
