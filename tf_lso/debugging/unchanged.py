"""Leave a model as it was: its variables and the attributes of its parts."""

import contextlib
import threading

import tensorflow as tf

from tf_lso import keras_versions as kerases
from tf_lso import tf_private
from tf_lso.debugging import randomness


@contextlib.contextmanager
def unchanged(*parts):
    """Restore models and all random state at the end, also after an exception.

    Args:
      *parts: models, layers, losses, optimizers. What they hold is found through their
        attributes: layers, metrics, generators, variables, lists of them.
    """
    variables, attributes, containers = _found(parts)
    # Reading copies nothing: a variable that is written to later gets a new buffer.
    values = [(v, v.read_value()) for v in variables if v.is_initialized()]
    attributes = [(holder, dict(holder)) for holder in attributes]
    containers = [
        (one, dict(one) if issubclass(type(one), dict) else list(one))
        for one in containers
    ]
    with randomness.restored():
        try:
            yield
        finally:
            for holder, before in attributes:
                for name in holder.keys() - before.keys():
                    del holder[name]
                holder.update(before)
            for container, before in containers:
                _restore(container, before)
            for variable, value in values:
                variable.assign(value)


def _found(parts):
    """Return the variables, the `__dict__`s and the containers in some objects."""
    variables, attributes, containers = [], [], []
    seen, waiting = {}, list(parts)
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen[id(one)] = one
        if isinstance(one, tf.Variable):
            variables += tf.distribute.get_strategy().experimental_local_results(one)
        elif issubclass(type(one), dict):
            containers.append(one)
            waiting.extend(dict.values(one))
        elif issubclass(type(one), (list, set)):
            containers.append(one)
            waiting.extend(one)
        elif isinstance(one, (tuple, frozenset)):
            waiting.extend(one)  # `+=` fails for what TensorFlow wraps a tuple in
        # Trackable collections of tf_keras stand for dicts that they wrap.
        if _holds_state(one) and isinstance(getattr(one, "__dict__", None), dict):
            attributes.append(vars(one))
            waiting.extend(vars(one).values())
            waiting.append(getattr(one, "__wrapped__", None))
    return variables, attributes, containers


def _holds_state(one):
    if isinstance(one, (type, tf.Variable)) or hasattr(one, "get_concrete_function"):
        return False
    kinds = (tf.Module, tf_private.trackable(), threading.local)
    return isinstance(one, kinds) or any(
        kerases.is_of_one(cls) for cls in type(one).__mro__
    )


def _restore(container, before):
    # By the methods of Python's own classes: those of Keras track what is put in.
    if issubclass(type(container), dict):
        if [*map(id, container.values())] != [*map(id, before.values())]:
            dict.clear(container)
            dict.update(container, before)
    elif [*map(id, container)] != [*map(id, before)]:
        if issubclass(type(container), list):
            list.__setitem__(container, slice(None), before)
        else:
            set.clear(container)
            set.update(container, before)
