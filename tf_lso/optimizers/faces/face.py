"""What a family of optimizers must provide: the hooks that everything else calls.

To support one more family, derive a class from `Face`, the family's optimizer class and
its own LossScaleOptimizer, and define what is abstract here. Python refuses to make an
instance of a class that lacks a hook.
"""

import abc
from typing import Any

import tensorflow as tf

from tf_lso.optimizers import overrides, validation
from tf_lso.optimizers import variables as variables_lib
from tf_lso.optimizers.surface import hyperparameters, legacy
from tf_lso.scaling import replica


class Face(legacy.Surface, abc.ABC):
    """The surface on the optimizers of one family."""

    # Whether `apply_gradients` calls an overridden `apply`, as Keras 3's does.
    _calls_apply = False

    def _refuse_in_fit(self) -> None:
        """Raise if `fit` of Keras 3 runs, which would ignore a user's methods."""

    # Whether the inner optimizer returns its updates as operations of a graph.
    _returns_operations = False

    @property
    @abc.abstractmethod
    def _family(self) -> str:
        """What configs call the family: "keras3", "legacy" or "new"."""

    @property
    @abc.abstractmethod
    def _package(self) -> str:
        """The family's Keras, "keras" or "tf_keras"; see `kerases`."""

    @property
    @abc.abstractmethod
    def _base(self) -> type:
        """The family's optimizer class; all of the family derive from it."""

    @classmethod
    def _bound_to(cls, subclass: type, bound: type) -> None:
        """Take note of the class of instances, once, when it is made.

        Args:
          subclass: the class that a program called.
          bound: the class made of that and of this face.
        """
        del subclass, bound

    # --- Construction, in this order.

    @staticmethod
    @abc.abstractmethod
    def _check_inner(inner: Any) -> None:
        """Raise if the family's optimizers cannot be wrapped, or not this one."""

    @abc.abstractmethod
    def _initialize_family(self, name: str | None) -> None:
        """Do what the constructor of the family's base class must do."""

    @abc.abstractmethod
    def _wrap_inner(self) -> None:
        """Take over the inner optimizer, when all attributes are there."""

    @staticmethod
    def _hyperparameters_of(inner: Any) -> frozenset[str]:
        """Return the names that the wrapper reads and sets on the inner optimizer."""
        return hyperparameters.delegated_names(inner)

    # --- A step. `scaling.step` calls the hooks without an underscore.

    @abc.abstractmethod
    def _prepare_step(self, variables: list[Any], used: list[Any]) -> None:
        """Build the optimizer, and refuse variables that it cannot update.

        Args:
          variables: all variables that were given.
          used: those that have a gradient.
        """

    def aggregate_inner(
        self, gradients: list[Any], variables: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        """Return the gradients aggregated over all replicas, and their variables."""
        aggregate = overrides.own_aggregation(self.inner_optimizer, self._base)
        if aggregate is not None:
            return validation.unzip(aggregate(list(zip(gradients, variables))))
        if replica.is_alone():
            return gradients, variables
        return self._sum_over_replicas(gradients, variables), variables

    @abc.abstractmethod
    def _sum_over_replicas(
        self, gradients: list[Any], variables: list[Any]
    ) -> list[Any]:
        """Return the gradients summed over all replicas, as the family sums them."""

    @property
    def aggregates_in_full(self) -> bool:
        """Whether aggregation leaves the same gradients on each replica."""
        return overrides.own_aggregation(self.inner_optimizer, self._base) is None

    @abc.abstractmethod
    def apply_inner(
        self, gradients: list[Any], variables: list[Any], name: str | None
    ) -> Any:
        """Update the variables by the inner optimizer, in replica context.

        Returns:
          An operation in graphs of TensorFlow 1; otherwise anything.
        """

    @abc.abstractmethod
    def skip_inner(self) -> list[Any]:
        """Count a skipped step; return the operations that do it."""

    def _compute_inner(
        self, loss: Any, var_list: Any, grad_loss: Any, tape: tf.GradientTape
    ) -> list[tuple[Any, Any]]:
        """Return (gradient, variable) pairs of a scaled loss, as `minimize` does."""
        return variables_lib.with_gradients(loss, var_list, grad_loss, tape)

    # --- Attributes.

    @property
    def _inner_name(self) -> str:
        """The name of the inner optimizer."""
        return self.inner_optimizer.name

    @abc.abstractmethod
    def _set_iterations(self, value: Any) -> None:
        """Set `iterations`."""

    @abc.abstractmethod
    def _decayed_lr(self, var_dtype: Any) -> tf.Tensor:
        """Return the learning rate of the next step. Programs call it."""

    def _get_hyperparameter(self, name: str) -> Any:
        """Return a hyperparameter of the inner optimizer."""
        if name == "decay" and not hasattr(self.inner_optimizer, name):
            return 0.0  # the default of legacy optimizers; those since 2.11 have none
        return getattr(self.inner_optimizer, name)

    def _set_hyperparameter(self, name: str, value: Any) -> None:
        """Set a hyperparameter of the inner optimizer."""
        if name != "decay" or hasattr(self.inner_optimizer, name):
            self._warn_if_traced(name)
            setattr(self.inner_optimizer, name, value)
        elif value != 0:
            raise ValueError(
                f"'decay' cannot be set to {value!r}: optimizers since TensorFlow "
                "2.11 have none. Give the optimizer the learning rate "
                "InverseTimeDecay(learning_rate, decay_steps=1, decay_rate=decay) of "
                "its Keras's optimizers.schedules, which computes the same."
            )

    # --- Variables.

    @abc.abstractmethod
    def build(self, var_list: Any) -> None:
        """Create the variables of the inner optimizer, once.

        Args:
          var_list: list of model variables.

        Raises:
          ValueError: if state that was set before the build does not fit these variables.
        """

    @abc.abstractmethod
    def _built_variables(self) -> list[Any]:
        """Return the model variables that the optimizer was built for."""

    @property
    @abc.abstractmethod
    def weights(self) -> list[Any]:
        """The variables that an OptimizerV2 has in `weights`, in its order, a list."""

    @abc.abstractmethod
    def _counter(self) -> Any:
        """Return the variable that counts steps."""

    @abc.abstractmethod
    def _head_variables(self) -> list[Any]:
        """Return the variables that exist from construction on."""

    def _hidden_variables(self) -> list[Any]:
        """Return the variables that the inner optimizer has but does not list."""
        return []

    # --- Slots and further variables. Programs call these.

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

    # --- Files. A face also overrides what the family's classes have for them: Keras calls
    # `save_own_variables` and `load_own_variables`, checkpoints call
    # those of `tf_private.Dependencies`.

    @abc.abstractmethod
    def _serialize_inner(self) -> dict[str, Any]:
        """Return the config of the inner optimizer, with the name of its class."""

    def _layouts(self) -> dict[str, tuple[list[Any], list[Any]]]:
        """Return {name: (variables before the slots, variables after them)}.

        Each is an order in which a list of arrays may hold all state. Once slots are
        built, they are the last of the former.
        """
        return {
            "weights": (self.weights, self._own_variables()),
            "weights alone": (self.weights, []),
        }

    @abc.abstractmethod
    def _file_layouts(self) -> list[str]:
        """Return the names of the layouts that files may have, the family's own first."""
