"""Get and set the state and configuration of a loss-scaled optimizer."""

import copy
from collections.abc import Iterable
from typing import Any

import numpy as np

from tf_lso.optimizers import validation
from tf_lso.optimizers import variables as variables_lib
from tf_lso.optimizers.configs import wrappers as configs
from tf_lso.optimizers.surface import stored
from tf_lso.scaling import loss_scale as loss_scale_lib


def unpickled(cls, state):
    """Return the optimizer that `State.__reduce_ex__` described.

    Args:
      cls: the class to make.
      state: dict that `__reduce_ex__` made.
    """
    inner_class, inner_config = state["inner"]
    scale_class, scale_config = state["scale"]
    inner = inner_class.from_config(inner_config)
    optimizer = cls.__new__(cls, inner)
    optimizer._start(
        inner, lambda: scale_class.from_config(scale_config), state["name"]
    )
    layout, arrays = state["arrays"]
    optimizer._keep_until_built(arrays, [layout], is_file=False)
    return optimizer


class State(stored.Stored):
    """The methods that get and set state, on every face."""

    def get_weights(self) -> list[np.ndarray]:
        """Return all state as a list of arrays.

        The variables of the inner optimizer come first, as in TensorFlow 2.4-2.15. The
        loss scale and its count follow, which those versions left out. Slots that were
        loaded before the build are included.
        """
        if self._waiting is not None:
            return self._arrays(self._waiting.layout)
        return [variables_lib.numpy(v) for v in (*self.weights, *self._own_variables())]

    def set_weights(self, weights: Iterable[Any]) -> None:
        """Set all state from what `get_weights` returned.

        Args:
          weights: list of arrays. A list without the loss scale and its count, as
            TensorFlow 2.4-2.15 returned, leaves these two unchanged.

        Raises:
          TypeError: if `weights` is no list, or an array holds no numbers.
          ValueError: if the number of arrays or a shape does not fit. Nothing is set.
        """
        weights = validation.as_list("weights", weights)
        own = self._own_variables()
        variables = [*self.weights, *own]
        if len(weights) not in (len(variables), len(variables) - len(own)):
            raise ValueError(
                f"'weights' has {len(weights)} arrays, but {type(self).__name__} has "
                f"{len(variables)} ({len(variables) - len(own)} without the loss scale). "
                "Build the optimizer before, on the same variables."
            )
        variables_lib.assign_all(variables, weights)

    def _own_variables(self):
        """Return the variables that `weights` leaves out, in the order of files."""
        return [*self._hidden_variables(), *self._scale_variables()]

    def _scale_variables(self):
        return [variable for _, variable in self.loss_scale_state.named_variables()]

    def __deepcopy__(self, memo):
        """Return an independent optimizer with an equal configuration and state.

        If this one has slots, the copy has equal slots for the same model variables.
        """
        inner = self.inner_optimizer
        inner = type(inner).from_config(inner.get_config())
        copied = memo[id(self)] = type(self).__new__(type(self), inner)
        copied._start(
            inner,
            lambda: copy.deepcopy(self.loss_scale_state, memo),
            self.__dict__.get("_own_name"),
        )
        variables = self._built_variables()
        if variables:
            copied.build(variables)
            copied.set_weights(self.get_weights())
        else:
            layout = self._own_layout()
            copied._keep_until_built(self._arrays(layout), [layout], is_file=False)
        return copied

    def __reduce_ex__(self, protocol):
        """Return what `pickle` needs to make an equal optimizer with the same state.

        A pickle of an optimizer does not hold the model's variables. So the new optimizer
        gets the values of its slots when its first step or `build` makes them.
        """
        del protocol
        inner = self.inner_optimizer
        scale = self.loss_scale_state
        state = {
            "inner": (type(inner), inner.get_config()),
            "scale": (type(scale), scale.get_config()),
            "name": self.__dict__.get("_own_name"),
            "arrays": (self._own_layout(), self._arrays(self._own_layout())),
        }
        return unpickled, (configs.unbound(type(self)), state)

    def get_config(self) -> dict[str, Any]:
        """Return a dict from which `from_config` makes an equal optimizer.

        It holds no state: the loss scale starts at `initial_scale` again.
        """
        config = {"inner_optimizer": self._serialize_inner()}
        config.update(loss_scale_lib.arguments_of(self.loss_scale_state))
        if self.__dict__.get("_own_name") is not None:
            config["name"] = self.name
        return config
