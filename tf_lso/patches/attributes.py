"""Old attributes of optimizers that the optimizers of both generations get."""

import tensorflow as tf

from tf_lso import variables as variables_lib


def give(ledger, owner, added, replaced):
    """Add attributes that a class lacks, and replace methods that it has.

    A function in `replaced` gets the method and returns the new one.
    """
    for name, value in added.items():
        if not hasattr(owner, name):
            ledger.set_attribute(owner, name, value)
    for name, replacement in replaced.items():
        if hasattr(owner, name):
            ledger.replace(owner, name, replacement(getattr(owner, name)))


def decayed(optimizer, learning_rate):
    """Return a learning rate divided by `1 + decay * iterations`, if there is a decay."""
    decay = getattr(optimizer, "decay", 0.0)
    if not decay:
        return learning_rate
    rate = tf.convert_to_tensor(learning_rate)
    steps = tf.cast(variables_lib.raw(optimizer.iterations), rate.dtype)
    return rate / (1.0 + tf.cast(decay, rate.dtype) * steps)


def config_with_decay(keras_config):
    """Return a `get_config` that adds `decay` for `from_config`."""

    def get_config(self):
        config = keras_config(self)
        if getattr(self, "decay", 0.0):
            config["decay"] = self.decay
        return config

    return get_config


def _get_weights(self):
    """The values of all variables, a list of arrays."""
    return [variables_lib.raw(variable).numpy() for variable in self.variables]


def _weights(self):
    """All variables, a list."""
    return list(self.variables)


def _create_all_weights(self, var_list):
    """Create the variables of the optimizer for these model variables, once."""
    self.build(list(var_list))


def _create_hypers(self):
    """Do nothing: hyperparameters exist from the start."""


# Name -> attribute that a class gets if it has none of that name.
ATTRIBUTES = {
    "get_weights": _get_weights,
    "weights": property(_weights),
    "_create_all_weights": _create_all_weights,
    "_create_slots": _create_all_weights,
    "_create_hypers": _create_hypers,
}
