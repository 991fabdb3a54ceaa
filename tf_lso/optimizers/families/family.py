"""What the wrapper needs of a family of optimizers: an adapter to one inner optimizer.

`LossScaleOptimizer` holds the adapter of its inner optimizer. To support one more family,
derive a class from `Family` and define what is abstract here. This file documents the
methods of all adapters; the adapters say only what is particular to them.
"""

import abc
from typing import Any

from tf_lso import replica
from tf_lso.optimizers import hyperparameters, validation
from tf_lso.optimizers import variables as variables_lib


def forwarded(name):
    """Return a property that returns an attribute of the inner optimizer."""
    doc = f"`{name}` of the inner optimizer."
    return property(lambda self: getattr(self.inner_optimizer, name), doc=doc)


class Family(abc.ABC):
    """The adapter to one inner optimizer, `inner`.

    | attribute | what it is |
    |---|---|
    | name | what configs call the family: "keras3", "legacy" or "new" |
    | package | its Keras, "keras" or "tf_keras"; see `kerases` |
    | base | its optimizer class, which all of the family derive from |
    | bases | the classes that a wrapper must be an instance of, for `isinstance` |
    | members | {name: value} that Keras or TensorFlow looks for on an optimizer |
    | returns_operations | whether the inner optimizer's updates are operations of a graph |
    | file_layouts | names of the `layouts` that files may have, the family's own first |
    | weight_layouts | the same of what `set_weights` takes |
    | defers_weights | whether `set_weights` keeps slots until the build |
    | lists_dependencies | whether checkpoints are restored by what `dependencies` lists |
    """

    name: str
    package: str
    base: type
    bases: tuple[type, ...]
    members: dict[str, Any] = {}  # noqa: RUF012
    returns_operations = False
    file_layouts: Any = ("weights", "weights alone")
    weight_layouts: tuple[str, ...] = ("weights", "weights alone")
    defers_weights = False
    lists_dependencies = False

    def __init__(self, inner):
        self.inner = inner
        self._checked = {}  # id -> variable that `prepare` has checked; keeps ids valid

    # --- Construction, in this order.

    def check(self):  # noqa: B027
        """Raise if the family's optimizers cannot be wrapped, or not this one."""

    def initialize(self, wrapper, name):  # noqa: B027
        """Do for the wrapper what the constructor of its base class must do."""

    @abc.abstractmethod
    def take_over(self, wrapper, loss_scale):
        """Change the inner optimizer as it must be changed, when the wrapper is made."""

    # --- A step, in this order.

    def refuse_in_fit(self, cls):  # noqa: B027
        """Raise if `fit` runs that would ignore methods of `cls`, a user's class."""

    def compute_gradients(self, loss, var_list, grad_loss, tape):
        """Return (gradient, variable) pairs of a scaled loss, as `minimize` does."""
        return variables_lib.with_gradients(loss, var_list, grad_loss, tape)

    def prepare(self, wrapper, variables, used):
        """Build the optimizer, and refuse variables that it cannot update.

        `variables` are all that were given, `used` those that have a gradient.
        """
        del used
        unchecked = [v for v in variables if id(v) not in self._checked]
        if unchecked:
            validation.check_variables(unchecked)
            self.build_in_step(wrapper, variables)
            self.check_built(unchecked)
            self._checked.update({id(v): v for v in variables})

    def build_in_step(self, wrapper, variables):
        """Build the wrapper on the variables of a step, if it is not built."""
        wrapper.build(variables)

    @abc.abstractmethod
    def build(self, wrapper, variables):
        """Create the variables of the inner optimizer, once: the wrapper's `build`."""

    def check_built(self, variables):  # noqa: B027
        """Raise if the optimizer, now built, cannot update one of the variables."""

    def aggregate(self, gradients, variables):
        """Return the gradients aggregated over all replicas, and their variables."""
        aggregate = self._own_aggregation()
        if aggregate is not None:
            return validation.unzip(aggregate(list(zip(gradients, variables))))
        if replica.is_alone():
            return gradients, variables
        return self.sum_over_replicas(gradients, variables), variables

    @property
    def aggregates_in_full(self):
        """Whether aggregation leaves the same gradients on each replica."""
        return self._own_aggregation() is None

    def _own_aggregation(self):
        # A user's own method, or None. Horovod has one, under OptimizerV2's name.
        for name in ("_aggregate_gradients", "aggregate_gradients"):
            method = getattr(type(self.inner), name, None)
            if method is not None and method is not getattr(self.base, name, None):
                return getattr(self.inner, name)
        return None

    @abc.abstractmethod
    def sum_over_replicas(self, gradients, variables):
        """Return the gradients summed over all replicas, as the family sums them."""

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

    @abc.abstractmethod
    def decayed_lr(self, var_dtype):
        """Return the learning rate of the next step."""

    def learning_rate(self):
        """Return what `learning_rate` of the wrapper is."""
        return self.inner.learning_rate

    def inner_name(self):
        """Return the name of the inner optimizer."""
        return self.inner.name

    def hyperparameters(self):
        """Return the names that the wrapper reads and sets on the inner optimizer."""
        return hyperparameters.delegated_names(self.inner)

    def get_hyperparameter(self, name):
        """Return one of the `hyperparameters`."""
        return hyperparameters.read(self.inner, name)

    def set_hyperparameter(self, name, value):
        """Set one; return whether steps that were traced before keep the old value."""
        return hyperparameters.write(self.inner, name, value)

    # --- Variables. An adapter also has the methods of `slots.ListedSlots`.

    @abc.abstractmethod
    def built_variables(self):
        """Return the model variables that the optimizer was built for."""

    @abc.abstractmethod
    def weights(self):
        """Return the variables that an OptimizerV2 has in `weights`, in its order."""

    def variables(self):
        """Return the variables that Keras saves, in the family's order."""
        return self.weights()

    def hidden_variables(self):
        """Return the variables that the inner optimizer has but does not list."""
        return []

    @abc.abstractmethod
    def variables_before_build(self, scale_variables):
        """Return the variables that exist from construction on, those given too."""

    def layouts(self, own):
        """Return {name: (variables before the slots, variables after them)}.

        Each is an order in which a list of arrays may hold all state. Built slots are the
        last of the former. `own` is what `weights` lacks: hidden variables, the scale's.
        """
        weights = self.weights()
        return {"weights": (weights, own), "weights alone": (weights, [])}

    # --- Files and checkpoints.

    @abc.abstractmethod
    def serialize(self):
        """Return the config of the inner optimizer, with the name of its class."""

    @abc.abstractmethod
    def load_file(self, state, arrays):
        """Set all of a `state.State` from a file's arrays, in one of `file_layouts`.

        Return `NotImplemented` where the wrapper's base class has to say what is wrong.
        """

    @abc.abstractmethod
    def dependencies(self, children, save_type, **kwargs):
        """Return what a checkpoint or a SavedModel holds of the wrapper, by names.

        `children` is what TensorFlow itself finds; `save_type` tells one from the other.
        """

    @abc.abstractmethod
    def dependency(self, name, found):
        """Return the object below which a checkpoint has `name`, or None.

        `found` returns what TensorFlow itself finds on the wrapper.
        """
