"""Old attributes of optimizers that the optimizers of both generations get."""

import tensorflow as tf

from tf_lso import variables as variables_lib


def add_missing(ledger, owner, attributes):
    """Add {name: attribute} that a class lacks."""
    for name, value in attributes.items():
        if not hasattr(owner, name):
            ledger.set_attribute(owner, name, value)


def decayed(optimizer, learning_rate):
    """Return a learning rate divided by `1 + decay * iterations`, if there is a decay."""
    decay = getattr(optimizer, "decay", 0.0)
    if not decay:
        return learning_rate
    rate = tf.convert_to_tensor(learning_rate)
    steps = tf.cast(variables_lib.raw(optimizer.iterations), rate.dtype)
    return rate / (1.0 + tf.cast(decay, rate.dtype) * steps)


def keep_decay_in_config(ledger, owner):
    """Make `get_config` of a class have `decay`, for `from_config`."""

    @ledger.around(owner, "get_config")
    def get_config(original, self):
        decay = getattr(self, "decay", 0.0)
        return {**original(self), **({"decay": decay} if decay else {})}


def replace_rate(ledger, owner, read):
    """Make `learning_rate` return `read(optimizer, what it returned)`."""
    before = owner.learning_rate
    after = property(
        lambda self: read(self, before.fget(self)), before.fset, doc=before.__doc__
    )
    ledger.set_attribute(owner, "learning_rate", after)


def _get_weights(self):
    """The values of all variables, a list of arrays."""
    return [variables_lib.raw(variable).numpy() for variable in self.variables]


def _create_all_weights(self, var_list):
    """Create the variables of the optimizer for these model variables, once."""
    self.build(list(var_list))


def _create_hypers(self):
    """Do nothing: hyperparameters exist from the start."""


# Name -> attribute that a class gets if it has none of that name.
ATTRIBUTES = {
    "get_weights": _get_weights,
    "weights": property(lambda self: list(self.variables)),
    "_create_all_weights": _create_all_weights,
    "_create_slots": _create_all_weights,
    "_create_hypers": _create_hypers,
}
