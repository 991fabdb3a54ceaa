"""What the wrapper needs of a family of optimizers: an adapter to one inner optimizer.

`LossScaleOptimizer` holds the adapter of its inner optimizer. To support one more family,
derive a class from `Family` and define what is abstract here.
"""

import abc
from typing import Any, ClassVar

import tensorflow as tf

from tf_lso.optimizers import hyperparameters, validation
from tf_lso.optimizers import variables as variables_lib
from tf_lso.scaling import replica


def forwarded(name: str) -> property:
    """Return a property that returns an attribute of the inner optimizer."""
    return property(
        lambda self: getattr(self.inner_optimizer, name),
        doc=f"`{name}` of the inner optimizer.",
    )


class Family(abc.ABC):
    """The adapter to one inner optimizer.

    Args:
      inner: the optimizer to adapt to.

    Attributes:
      name: what configs call the family: "keras3", "legacy" or "new".
      package: the family's Keras, "keras" or "tf_keras"; see `kerases`.
      base: the family's optimizer class, which all of the family derive from.
      bases: the classes that a wrapper must be an instance of, for `isinstance`.
      members: {name: value} that the class of wrappers has beside the public surface,
        since Keras or TensorFlow looks for it on an optimizer.
      returns_operations: whether the inner optimizer returns its updates as operations
        of a graph.
      file_layouts: names of the layouts that files may have, the family's own first.
      weight_layouts: the same of what `set_weights` takes.
      defers_weights: whether `set_weights` keeps slots until the build.
      lists_dependencies: whether checkpoints are restored by what `dependencies` lists.
    """

    name: ClassVar[str]
    package: ClassVar[str]
    base: ClassVar[type]
    bases: ClassVar[tuple[type, ...]]
    members: ClassVar[dict[str, Any]] = {}
    returns_operations: ClassVar[bool] = False
    file_layouts: Any = ("weights", "weights alone")
    weight_layouts: ClassVar[tuple[str, ...]] = ("weights", "weights alone")
    defers_weights: ClassVar[bool] = False
    lists_dependencies: ClassVar[bool] = False

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self._checked: dict[int, Any] = {}

    def unchecked(self, variables: list[Any]) -> list[Any]:
        """Return the variables that no step has had so far; refuse what is none."""
        unchecked = [v for v in variables if id(v) not in self._checked]
        validation.check_variables(unchecked)
        return unchecked

    def note_checked(self, variables: list[Any]) -> None:
        """Note variables that `prepare` has checked; they are kept, as are their ids."""
        self._checked.update({id(v): v for v in variables})

    # --- Construction, in this order.

    def check(self) -> None:  # noqa: B027
        """Raise if the family's optimizers cannot be wrapped, or not this one."""

    def initialize(self, wrapper: Any, name: str | None) -> None:  # noqa: B027
        """Do for the wrapper what the constructor of its base class must do."""

    @abc.abstractmethod
    def take_over(self, wrapper: Any, loss_scale: Any) -> None:
        """Change the inner optimizer as it must be changed, when the wrapper is made."""

    def hyperparameters(self) -> frozenset[str]:
        """Return the names that the wrapper reads and sets on the inner optimizer."""
        return hyperparameters.delegated_names(self.inner)

    def refuse_in_fit(self, cls: type) -> None:  # noqa: B027
        """Raise if `fit` runs that would ignore methods of `cls`, a user's class."""

    # --- A step, in this order.

    @abc.abstractmethod
    def build(self, wrapper: Any, variables: list[Any]) -> None:
        """Create the variables of the inner optimizer, once."""

    @abc.abstractmethod
    def prepare(self, wrapper: Any, variables: list[Any], used: list[Any]) -> None:
        """Build the optimizer, and refuse variables that it cannot update.

        Args:
          wrapper: the optimizer that builds.
          variables: all variables that were given.
          used: those that have a gradient.
        """

    def aggregate(
        self, gradients: list[Any], variables: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        """Return the gradients aggregated over all replicas, and their variables."""
        aggregate = self._own_aggregation()
        if aggregate is not None:
            return validation.unzip(aggregate(list(zip(gradients, variables))))
        if replica.is_alone():
            return gradients, variables
        return self.sum_over_replicas(gradients, variables), variables

    @property
    def aggregates_in_full(self) -> bool:
        """Whether aggregation leaves the same gradients on each replica."""
        return self._own_aggregation() is None

    def _own_aggregation(self) -> Any:
        """Return a user's own method that aggregates gradients, or None.

        Horovod's optimizers have one, under the name of OptimizerV2's.
        """
        for name in ("_aggregate_gradients", "aggregate_gradients"):
            method = getattr(type(self.inner), name, None)
            if method is not None and method is not getattr(self.base, name, None):
                return getattr(self.inner, name)
        return None

    @abc.abstractmethod
    def sum_over_replicas(
        self, gradients: list[Any], variables: list[Any]
    ) -> list[Any]:
        """Return the gradients summed over all replicas, as the family sums them."""

    @abc.abstractmethod
    def apply(
        self, gradients: list[Any], variables: list[Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Update the variables by the inner optimizer, in replica context.

        Args:
          gradients: aggregated gradients, unscaled.
          variables: the variable of each gradient.
          *args: further arguments of the inner optimizer's own `apply_gradients`.
          **kwargs: the same, by name; `name` is one that it may lack.

        Returns:
          An operation in graphs of TensorFlow 1; otherwise anything.
        """

    @abc.abstractmethod
    def count_skipped(self) -> list[Any]:
        """Count a skipped step; return the operations that do it."""

    def compute_gradients(
        self, loss: Any, var_list: Any, grad_loss: Any, tape: tf.GradientTape
    ) -> list[tuple[Any, Any]]:
        """Return (gradient, variable) pairs of a scaled loss, as `minimize` does."""
        return variables_lib.with_gradients(loss, var_list, grad_loss, tape)

    # --- Attributes.

    def inner_name(self) -> str:
        """Return the name of the inner optimizer."""
        return self.inner.name  # type: ignore[no-any-return]

    @abc.abstractmethod
    def counter(self) -> Any:
        """Return the variable that counts steps."""

    def step_counter(self) -> Any:
        """Return the TensorFlow variable behind `counter`."""
        return variables_lib.raw(self.counter())

    @abc.abstractmethod
    def set_iterations(self, value: Any) -> None:
        """Set `iterations`."""

    def learning_rate(self) -> Any:
        """Return what `learning_rate` of the wrapper is."""
        return self.inner.learning_rate

    @abc.abstractmethod
    def decayed_lr(self, var_dtype: Any) -> tf.Tensor:
        """Return the learning rate of the next step."""

    def get_hyperparameter(self, name: str) -> Any:
        """Return a hyperparameter of the inner optimizer."""
        if name == "decay" and not hasattr(self.inner, name):
            return 0.0  # the default of legacy optimizers; those since 2.11 have none
        return getattr(self.inner, name)

    def set_hyperparameter(self, name: str, value: Any) -> bool:
        """Set a hyperparameter; return whether steps traced before keep the old one."""
        if name != "decay" or hasattr(self.inner, name):
            setattr(self.inner, name, value)
            return True
        if value != 0:
            raise ValueError(
                f"'decay' cannot be set to {value!r}: optimizers since TensorFlow "
                "2.11 have none. Give the optimizer the learning rate "
                "InverseTimeDecay(learning_rate, decay_steps=1, decay_rate=decay) of "
                "its Keras's optimizers.schedules, which computes the same."
            )
        return False

    # --- Variables.

    @abc.abstractmethod
    def built_variables(self) -> list[Any]:
        """Return the model variables that the optimizer was built for."""

    @abc.abstractmethod
    def weights(self) -> list[Any]:
        """Return the variables that an OptimizerV2 has in `weights`, in its order."""

    def variables(self) -> list[Any]:
        """Return the variables that Keras saves, in the family's order."""
        return self.weights()

    @abc.abstractmethod
    def variables_before_build(self, scale_variables: list[Any]) -> list[Any]:
        """Return the variables that exist from construction on, those given too."""

    def hidden_variables(self) -> list[Any]:
        """Return the variables that the inner optimizer has but does not list."""
        return []

    def layouts(self, own: list[Any]) -> dict[str, tuple[list[Any], list[Any]]]:
        """Return {name: (variables before the slots, variables after them)}.

        Each is an order in which a list of arrays may hold all state. Once slots are
        built, they are the last of the former.

        Args:
          own: the variables that `weights` leaves out: hidden ones, then the scale's.
        """
        weights = self.weights()
        return {"weights": (weights, own), "weights alone": (weights, [])}

    # --- Slots and further variables. Programs call these on the wrapper.

    @abc.abstractmethod
    def get_slot_names(self) -> list[str]:
        """Return the slot names that the inner optimizer has built, a list of str."""

    @abc.abstractmethod
    def get_slot(self, var: Any, slot_name: str) -> Any:
        """Return the slot variable of a model variable."""

    @abc.abstractmethod
    def add_slot(
        self, var: Any, slot_name: str, initializer: Any = "zeros", shape: Any = None
    ) -> Any:
        """Return the slot variable of a model variable, made if it does not exist."""

    @abc.abstractmethod
    def add_weight(
        self,
        name: str,
        shape: Any = (),
        dtype: Any = None,
        initializer: Any = "zeros",
        **kwargs: Any,
    ) -> Any:
        """Return a new variable of the inner optimizer."""

    # --- Files and checkpoints.

    @abc.abstractmethod
    def serialize(self) -> dict[str, Any]:
        """Return the config of the inner optimizer, with the name of its class."""

    @abc.abstractmethod
    def load_file(self, state: Any, arrays: list[Any]) -> Any:
        """Set all state from the arrays of a .keras or .weights.h5 file.

        Args:
          state: the `state.State` of the wrapper.
          arrays: list of arrays, in one of `file_layouts`.

        Returns:
          `NotImplemented` where the wrapper's base class has to say what is wrong.
        """

    @abc.abstractmethod
    def dependencies(
        self, children: dict[str, Any], save_type: str, **kwargs: Any
    ) -> dict[str, Any]:
        """Return what a checkpoint or a SavedModel holds of the wrapper, by names.

        Args:
          children: what TensorFlow itself finds on the wrapper.
          save_type: "checkpoint" or "savedmodel".
          **kwargs: as TensorFlow gives them.
        """

    @abc.abstractmethod
    def dependency(self, name: str, found: Any) -> Any:
        """Return the object below which a checkpoint has `name`, or None.

        Args:
          name: str, a name in the checkpoint.
          found: callable that returns what TensorFlow itself finds on the wrapper.
        """
