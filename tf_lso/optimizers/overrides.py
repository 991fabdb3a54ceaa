"""Call a subclass's own methods where TensorFlow 2.4-2.15 called them.

`fit` of those versions called `minimize`, which called the others. `fit` of Keras 3 calls
`scale_loss`, computes the gradients itself, and calls `apply_gradients`. So `scale_loss`
calls an overridden `get_scaled_loss`. An overridden `apply_gradients` gets unscaled
gradients; the overridden methods that come before it are called first.
"""

import functools
import inspect

from tf_lso.optimizers import refusals
from tf_lso.optimizers import variables as variables_lib
from tf_lso.scaling import gradients as gradients_lib
from tf_lso.scaling import protocol as protocol_lib

NAMES = (
    "get_scaled_loss",
    "get_unscaled_gradients",
    "_compute_gradients",
    "minimize",
    "apply_gradients",
    "apply",
)


class TakenGradients:
    """Replaces a tape whose gradients have been computed already."""

    def __init__(self, gradients, variables):
        self._gradients = {
            id(variables_lib.raw(v)): g for g, v in zip(gradients, variables)
        }

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def watch(self, tensor):
        """Do nothing: the gradients are known."""

    def gradient(self, target, sources, *args, **kwargs):
        """Return the gradients of `sources`, a list with None for missing ones."""
        del target, args, kwargs
        return [self._gradients.get(id(variables_lib.raw(v))) for v in sources]


def prepare(cls):
    """Make sure that the methods which a subclass overrides are called as above.

    Args:
      cls: the class that was just defined.
    """
    cls._overridden = frozenset(
        name for name in NAMES if not _is_of_tf_lso(getattr(cls, name, prepare))
    )
    for name, entry in _ENTRIES.items():
        method = getattr(cls, name, None)
        calls_for_it = name in cls._overridden or (
            name == "apply_gradients"
            and cls._overridden & {"minimize", "_compute_gradients"}
        )
        if calls_for_it and not hasattr(method, "_tf_lso_entry"):
            wrapper = functools.wraps(method)(entry(method))
            wrapper._tf_lso_entry = True
            setattr(cls, name, wrapper)


def _is_of_tf_lso(method):
    return getattr(method, "__module__", "").split(".")[0] == "tf_lso"


def _entry_to_scaling(method):
    def get_scaled_loss(self, loss):
        calls = self._protocol.calls
        scaled = method(self, loss)
        if self._protocol.calls == calls:  # the base class's was not called
            scale = self._loss_scale()
            self._protocol.scaled(protocol_lib.LEGACY, scale, scaled)
        return scaled

    return get_scaled_loss


def _entry_to_unscaling(method):
    def get_unscaled_gradients(self, grads):
        calls = self._protocol.calls
        grads = refusals.as_list("grads", grads)
        unscaled = list(method(self, grads))
        if self._protocol.calls == calls:
            self._protocol.unscaled(unscaled, [None] * len(grads), None)
        return unscaled

    return get_unscaled_gradients


def _entry_to_applying(method):
    def apply_gradients(self, grads_and_vars, *args, **kwargs):
        grads, variables = refusals.unzip(grads_and_vars)
        given = [gradient for gradient in grads if gradient is not None]
        if given and self._protocol.divisor(given) is not None:
            loss = self._protocol.loss
            if loss is not None and _takes_a_tape(self):
                tape = TakenGradients(grads, variables)
                return self.minimize(loss, variables, tape=tape)
            grads = unscaled(self, grads, variables)
        return method(self, list(zip(grads, variables)), *args, **kwargs)

    return apply_gradients


_ENTRIES = {
    "get_scaled_loss": _entry_to_scaling,
    "get_unscaled_gradients": _entry_to_unscaling,
    "apply_gradients": _entry_to_applying,
}


def _takes_a_tape(optimizer):
    if not optimizer._overridden & {"minimize", "_compute_gradients"}:
        return False
    parameters = inspect.signature(optimizer.minimize).parameters.values()
    return any(p.name == "tape" or p.kind is p.VAR_KEYWORD for p in parameters)


def unscaled(optimizer, grads, variables):
    """Return the gradients, unscaled by the subclass's `get_unscaled_gradients`."""
    scaled = gradients_lib.scaled_of(grads, variables)
    divisor = optimizer._protocol.divisor([g for g in grads if g is not None])
    with optimizer._protocol.dividing_by(divisor):
        results = optimizer.get_unscaled_gradients(scaled)
    return [g if s is None else u for g, s, u in zip(grads, scaled, results)]


# --- Methods of a user's inner optimizer.


def own_aggregation(optimizer, base):
    """Return a user's own method that aggregates gradients, or None.

    Horovod's optimizers have one, under the name of OptimizerV2's.
    """
    for name in ("_aggregate_gradients", "aggregate_gradients"):
        method = getattr(type(optimizer), name, None)
        if method is not None and method is not getattr(base, name, None):
            return getattr(optimizer, name)
    return None


def dead_overrides(optimizer):
    """Return the names of a user's methods that only OptimizerV2 called, a list."""
    names = ("_resource_apply_dense", "_resource_apply_sparse")
    return [name for name in names if hasattr(type(optimizer), name)]
