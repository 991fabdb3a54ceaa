"""What all faces check and look up: pairs, variables and strategies."""

import contextlib
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

_Function = TypeVar("_Function", bound=Callable[..., Any])


def not_converted(function: _Function) -> _Function:
    """Keep AutoGraph away from a function.

    It would rewrite it in every tf.function that calls it, and find nothing to convert.
    """
    # With the type of the function, which TensorFlow's decorator does not keep.
    decorated: _Function = tf.autograph.experimental.do_not_convert(function)
    return decorated


# Held while optimizer variables are made: two threads may run the first step at once.
building = threading.RLock()


class CallableList(list):
    """A list that may also be called, as `variables()` was in TensorFlow 2.0-2.10."""

    def __call__(self):
        """Return the list itself."""
        return self


def in_graph_of_tensorflow_1():
    """Whether a graph of TensorFlow 1 is being built, rather than a function."""
    if tf.executing_eagerly():
        return False
    return not tf.compat.v1.get_default_graph().building_function


def as_list(name, iterable):
    """Return a list of `iterable`, or raise TypeError naming the argument."""
    try:
        return list(iterable)
    except TypeError as error:
        raise TypeError(
            f"{name!r} must be an iterable, but got: {iterable!r}."
        ) from error


def unzip(grads_and_vars):
    """Return the lists of gradients and variables of an iterable of pairs.

    Raises:
      ValueError: if an element is no pair.
    """
    pairs = as_list("grads_and_vars", grads_and_vars)
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ValueError(
                "'grads_and_vars' must hold (gradient, variable) pairs, but got the "
                f"element {pair!r}. Pass `zip(gradients, variables)`."
            )
    return [gradient for gradient, _ in pairs], [variable for _, variable in pairs]


def check_strategy():
    """Raise ValueError under a strategy that loss scaling cannot serve.

    Strategies are supported if they have one replica, or if each replica has a copy of
    each variable.
    """
    if not tf.distribute.has_strategy():
        return
    strategy = tf.distribute.get_strategy()
    supported = (
        tf.distribute.OneDeviceStrategy,
        tf.distribute.MirroredStrategy,
        tf.distribute.MultiWorkerMirroredStrategy,
        tf.distribute.experimental.MultiWorkerMirroredStrategy,
        tf.compat.v1.distribute.OneDeviceStrategy,
        tf.compat.v1.distribute.MirroredStrategy,
        tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy,
    )
    if not isinstance(strategy, supported):
        raise ValueError(
            "Loss scaling is not supported with the tf.distribute.Strategy: "
            f"{type(strategy).__name__}. Use tf.distribute.MirroredStrategy on one "
            "machine or tf.distribute.MultiWorkerMirroredStrategy on several; with "
            "bfloat16, which needs no loss scaling, leave the optimizer unwrapped."
        )


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


def called(variables):
    """Return `variables`, which is a method in some families, as a list."""
    return variables() if callable(variables) else variables


def raw(variable):
    """Return the TensorFlow variable of a Keras 3 variable; other variables as is."""
    value = getattr(variable, "value", None)
    return variable if value is None or callable(value) else value


def numpy(variable):
    """Return the value of any variable on the first local replica, an array."""
    variable = copies(variable)[0]
    if in_graph_of_tensorflow_1():
        return _session_of_keras().get_value(variable)
    return variable.numpy()


def _session_of_keras():
    """Return what reads and sets variables in sessions; only tf_keras has them."""
    return sys.modules["tf_keras"].backend


def copies(variable):
    """Return the TensorFlow variables behind a variable, one for each local replica."""
    variable = raw(variable)
    if isinstance(variable, tf.distribute.DistributedValues):
        return list(variable.values)
    return [variable]


def name_of(variable):
    """Return what messages call `variable`: its path, its name, or its repr."""
    return (
        getattr(variable, "path", None)
        or getattr(variable, "name", None)
        or repr(variable)
    )


def _array_for(variable, array):
    array = np.asarray(array)
    if array.dtype.kind in "OSU":  # objects and texts
        raise TypeError(
            f"The array for {name_of(variable)} in 'weights' must hold numbers, but got "
            f"{array!r}."
        )
    if array.shape != tuple(variable.shape):
        raise ValueError(
            f"The array for {name_of(variable)} in 'weights' has the shape {array.shape}, "
            f"but needs {tuple(variable.shape)}."
        )
    return array


def assign_all(variables, arrays):
    """Assign each array to the variable at its place. If one does not fit, assign none.

    Raises:
      TypeError: if an array holds no numbers.
      ValueError: if its shape is another.
    """
    arrays = [_array_for(v, array) for v, array in zip(variables, arrays)]
    # One by one: this also works in the thread of a replica.
    pairs = [(c, array) for v, array in zip(variables, arrays) for c in copies(v)]
    if in_graph_of_tensorflow_1():
        _session_of_keras().batch_set_value(pairs)
        return
    for copy, array in pairs:
        copy.assign(tf.cast(array, copy.dtype))


def refuse_nongradients(gradients):
    """Raise TypeError unless all are tensors, slices, numbers or None."""
    for gradient in gradients:
        if isinstance(gradient, (list, tuple, dict, str, bytes)):
            raise TypeError(
                "Gradients must be tensors, tf.IndexedSlices or None, but got "
                f"{gradient!r} of type {type(gradient).__name__} in 'grads'. Pass one "
                "flat list, for instance tf.nest.flatten(gradients)."
            )


def refuse_unknown(names):
    """Raise ValueError if there are `names` of variables that the optimizer lacks."""
    if names:
        raise ValueError(
            f"Unknown variables: {names}. The optimizer was built for other variables; "
            "make a new one for these."
        )


def refuse_nonvariables(variables):
    """Raise TypeError unless all are variables."""
    for variable in variables:
        if not isinstance(
            raw(variable), (tf.Variable, tf.distribute.DistributedValues)
        ):
            raise TypeError(
                "Gradients can only be applied to variables, but got "
                f"{variable!r} of type {type(variable).__name__}."
            )


def outside_scope(variables):
    """Return the names of variables that do not belong to the strategy in scope."""
    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
        return []
    created_in_scope = tf.distribute.get_strategy().extended.variable_created_in_scope
    return [name_of(v) for v in variables if not created_in_scope(raw(v))]


def strategy_of(variables):
    """Return the strategy under which model variables were created."""
    for variable in variables:
        strategy = getattr(raw(variable), "distribute_strategy", None)
        if strategy is not None:
            return strategy
    return tf.distribute.get_strategy()


def scope_of(strategy):
    """Return the strategy's scope, or a null context if it is entered already."""
    if strategy is tf.distribute.get_strategy():
        return contextlib.nullcontext()
    return strategy.scope()
