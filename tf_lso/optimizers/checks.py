"""What the faces ask of variables, pairs and strategies, and what they refuse."""

import contextlib
import sys
import threading

import numpy as np
import tensorflow as tf

# AutoGraph would rewrite this package in every tf.function that calls it, which takes
# time and finds nothing to convert.
not_converted = tf.autograph.experimental.do_not_convert

# Held while optimizer variables are made: threads may take the first step together.
building = threading.RLock()


class CallableList(list):
    """A list that may also be called, as `variables()` was in TensorFlow 2.0-2.10."""

    def __call__(self):
        return self


def in_graph_of_tensorflow_1():
    """Whether a graph of sessions is being built, and no function."""
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

    Supported are those with one replica, or with a copy of each variable on each
    replica: elsewhere each replica would unscale what is applied to one variable.
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
    """Return the method of a user's subclass that sums gradients its own way, or None.

    Horovod's optimizers have one, called as that of OptimizerV2 was.
    """
    for name in ("_aggregate_gradients", "aggregate_gradients"):
        method = getattr(type(optimizer), name, None)
        if method is not None and method is not getattr(base, name, None):
            return getattr(optimizer, name)
    return None


def dead_overrides(optimizer):
    """Return the methods of a user's class that only OptimizerV2 called, a list."""
    names = ("_resource_apply_dense", "_resource_apply_sparse")
    return [name for name in names if hasattr(type(optimizer), name)]


def called(variables):
    """The list itself, also where the family made `variables` a method."""
    return variables() if callable(variables) else variables


def raw(variable):
    """The TensorFlow variable of a Keras 3 variable, and any other as it is."""
    value = getattr(variable, "value", None)
    return variable if value is None or callable(value) else value


def numpy(variable):
    """The value of a variable of any kind as an array, on the first local replica."""
    variable = copies(variable)[0]
    if in_graph_of_tensorflow_1():
        return _session_of_keras().get_value(variable)
    return variable.numpy()


def _session_of_keras():
    """What reads and sets variables in a session: only tf_keras has sessions."""
    return sys.modules["tf_keras"].backend


def copies(variable):
    """The TensorFlow variables that hold a variable's value, one a local replica."""
    variable = raw(variable)
    if isinstance(variable, tf.distribute.DistributedValues):
        return list(variable.values)
    return [variable]


def name_of(variable):
    """Return what a message calls `variable`: its path, its name, or what it is."""
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
    """Assign each array to the variable of its place, or none if one does not fit.

    Raises:
      TypeError: if an array holds no numbers.
      ValueError: if its shape is another.
    """
    arrays = [_array_for(v, array) for v, array in zip(variables, arrays)]
    # One by one, which is right in the thread of a replica too.
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
    """Raise ValueError if `names` of variables the optimizer was not built for exist."""
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
    """Return the strategy that model variables were created under."""
    for variable in variables:
        strategy = getattr(raw(variable), "distribute_strategy", None)
        if strategy is not None:
            return strategy
    return tf.distribute.get_strategy()


def scope_of(strategy):
    """Return the strategy's scope, or nothing where it is entered already."""
    if strategy is tf.distribute.get_strategy():
        return contextlib.nullcontext()
    return strategy.scope()
