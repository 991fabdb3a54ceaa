"""State and configuration of a loss-scaled optimizer, taken out and put back."""

import copy

from tf_lso.optimizers import checks


class State:
    """The methods that hand out state, on every face."""

    def get_weights(self):
        """Return all state as a list of arrays.

        The variables of the inner optimizer come first, as in TensorFlow 2.4-2.15, then
        the loss scale and its count, which those versions left out.
        """
        return [
            checks.raw(v).numpy() for v in (*self.weights, *self._scale_variables())
        ]

    def set_weights(self, weights):
        """Set all state from what `get_weights` returned.

        Args:
          weights: list of arrays; a list without the loss scale and its count, as
            TensorFlow 2.4-2.15 returned, leaves these two as they are.

        Raises:
          ValueError: if the number of arrays or a shape does not fit; nothing is set.
        """
        weights = checks.as_list("weights", weights)
        own = self._scale_variables()
        variables = [*self.weights, *own]
        if len(weights) not in (len(variables), len(variables) - len(own)):
            raise ValueError(
                f"'weights' has {len(weights)} arrays, but {type(self).__name__} has "
                f"{len(variables)} ({len(variables) - len(own)} without the loss scale). "
                "Build the optimizer before, on the same variables."
            )
        checks.assign_all(variables, weights)

    def _scale_variables(self):
        return [variable for _, variable in self.loss_scale_state.named_variables()]

    def __deepcopy__(self, memo):
        """Return an optimizer of its own with an equal configuration and state.

        Where this one has slots, the copy has equal ones for the same model variables.
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
        return copied

    def __reduce_ex__(self, protocol):
        raise TypeError(
            f"{type(self).__name__} cannot be pickled, since its variables cannot. "
            "Pickle get_config() and get_weights(), or use tf.train.Checkpoint."
        )

    def get_config(self):
        """Return a dict from which `from_config` makes an equal optimizer.

        It holds no state: the loss scale starts at `initial_scale` again.
        """
        config = {
            "inner_optimizer": self._serialize_inner(),
            "dynamic": self.dynamic,
            "initial_scale": self.initial_scale,
            "dynamic_growth_steps": self.dynamic_growth_steps,
        }
        if self.__dict__.get("_own_name") is not None:
            config["name"] = self.name
        if self.dynamic:
            limits = self.loss_scale_state.get_config()
            for ours, theirs in (
                ("min_scale", "min_loss_scale"),
                ("max_scale", "max_loss_scale"),
            ):
                if theirs in limits:
                    config[ours] = limits[theirs]
        return config
