"""Access to private names of Keras 3's optimizers and variables.

`install/table.py` lists the functions of this module that change a wrapped optimizer.
"""

import operator

import tensorflow as tf

from tf_lso.frameworks import graphs, keras_versions, tf_private
from tf_lso.frameworks import variables as variables_lib

# Checkpoints contain these two variables of every Keras 3 optimizer. No step uses those of a
# wrapper.
OF_EACH_OPTIMIZER = {"_iterations", "_learning_rate"}

_AGGREGATES = "_all_reduce_sum_gradients"

# These two dicts map a private name of Keras's optimizers to the first version of Keras that
# has the name. Only instances have the names in `_OF_INSTANCE`.
_OF_CLASS = {"_var_key": (3, 0), _AGGREGATES: (3, 2)}
_OF_INSTANCE = {
    "_iterations": (3, 5),
    "_learning_rate": (3, 0),
    "_trainable_variables": (3, 0),
    "_trainable_variables_indices": (3, 0),
    "_variables": (3, 0),
    "_distribution_strategy": (3, 0),
}

_summed = graphs.ThreadSwitch()

learning_rate = operator.attrgetter("_learning_rate")
# `built_variables(optimizer)` returns the model variables for which the optimizer was built.
built_variables = operator.attrgetter("_trainable_variables")
# `own_variables(optimizer)` returns the variables that Keras's base class has created.
own_variables = operator.attrgetter("_variables")
# `known_variables(optimizer)` returns a pair (indices, key), as in `keras2_private`.
known_variables = operator.attrgetter("_trainable_variables_indices", "_var_key")


def _is_in_this_keras(name):
    return keras_versions.is_at_least("keras", *{**_OF_CLASS, **_OF_INSTANCE}[name])


def _check(owner, cls, names):
    for name in filter(_is_in_this_keras, names):
        if not hasattr(owner, name):
            there, moved = keras_versions.version("keras"), f"{cls.__name__}.{name}"
            raise tf_private.moved("keras", there, moved, __file__)


def check_class():
    """Raise ImportError if Keras 3's `Optimizer` lacks a private name that tf_lso uses."""
    cls = keras_versions.public("keras").optimizers.Optimizer
    _check(cls, cls, _OF_CLASS)


def check_instance(optimizer):
    """Raise ImportError if an optimizer lacks a private attribute that tf_lso uses."""
    _check(optimizer, type(optimizer), _OF_INSTANCE)


def iteration_variable(optimizer):
    """Return the variable that counts an optimizer's steps.

    With gradient accumulation, this variable counts batches. The public `iterations` is this
    number divided by `gradient_accumulation_steps`, but before Keras 3.5 the variable itself.
    """
    is_there = _is_in_this_keras("_iterations")
    return optimizer._iterations if is_there else optimizer.iterations


def set_built_variables(optimizer, variables):
    variables_lib.set_untracked(optimizer, "_trainable_variables", list(variables))


def scale_nothing(optimizer):
    """Set `loss_scale_factor` to None, so that only the wrapper unscales gradients."""
    optimizer.loss_scale_factor = None


def build_under(optimizer, strategy):
    """Let the inner optimizer use the model's distribution strategy for its variables."""
    variables_lib.set_untracked(optimizer, "_distribution_strategy", strategy)


def aggregates():
    """Return whether Keras 3's optimizers sum gradients over replicas."""
    # They do since Keras 3.2 (keras#19467).
    return _is_in_this_keras(_AGGREGATES)


def sum_gradients_only_once(optimizer, instead):
    """In the wrapper's steps, skip Keras's own sum of gradients over replicas."""
    # The wrapper sums gradients before the inner optimizer clips them, because the wrapper
    # must check whether the sums are finite. Keras 3 would sum the clipped gradients a second
    # time. `instead` gets the (gradient, variable) pairs in place of this second sum.
    if _AGGREGATES in vars(optimizer) or not aggregates():
        return
    keras_sum = optimizer._all_reduce_sum_gradients

    def sum_gradients(grads_and_vars):
        return (instead if _summed.is_on else keras_sum)(grads_and_vars)

    variables_lib.set_untracked(optimizer, _AGGREGATES, sum_gradients)


def already_summed():
    """Return a context manager for the inner optimizer's part of a step of the wrapper.

    The wrapper has already summed the gradients over replicas. Inside this context, Keras 3
    does not sum the gradients again, counts the step exactly once, and skips a part of a
    MultiOptimizer that has no gradients.
    """
    return _summed.on()


def count_steps_once(optimizer):
    """Count each step of the wrapper exactly once, even with threads or replicas."""
    # Keras 3 reads the step counter and then assigns the next value. In between, another thread
    # may count a step, and this step would be lost. If the counter is not mirrored, each
    # replica would add 1 to the same counter.
    variable = iteration_variable(optimizer)
    keras_assign, keras_assign_add = variable.assign, variable.assign_add

    def assign_add(value):
        if not _summed.is_on:
            return keras_assign_add(value)
        raw = variable.value
        mirrored = isinstance(raw, tf.distribute.DistributedValues)
        return raw.assign_add(value) if mirrored or graphs.is_first_replica() else raw

    def assign(value):
        # At the end of a step, Keras 3.0 calls `assign` with the counter plus 1.
        return assign_add(1) if _summed.is_on else keras_assign(value)

    variables_lib.set_untracked(variable, "assign_add", assign_add)
    variables_lib.set_untracked(variable, "assign", assign)


def build_as_bare(optimizer, variables):
    """Build an inner optimizer as Keras builds an optimizer that has no wrapper.

    While a `tf.function` is being traced, Keras calls the optimizer's `build` in graph mode.
    This function does the same, except for optimizers whose `build` fails in graph mode.
    """
    # Trace a separate `tf.function` for `build`, because the `tf.function` that is being traced
    # may be one that must not create variables.
    if not tf.executing_eagerly():
        before = len(optimizer.variables)
        build = tf.function(lambda: optimizer.build(variables), autograph=False)
        try:
            build.get_concrete_function()
            return
        except Exception:
            if optimizer.built or len(optimizer.variables) != before:
                raise
    # The `build` of some optimizers fails in graph mode, because it reads values of variables.
    # An example is a MultiOptimizer whose parts were copied.
    with tf.init_scope():
        optimizer.build(variables)


def tolerate_no_gradients(part):
    """In the wrapper's steps, skip a part of a MultiOptimizer that has no gradients."""
    # Keras 3's `apply` raises an error if all gradients of a part are None. At that time other
    # parts of the MultiOptimizer may already have updated their variables.
    keras_apply = part.apply

    def apply(grads, trainable_variables=None):
        if not _summed.is_on or any(gradient is not None for gradient in grads):
            keras_apply(grads, trainable_variables)

    variables_lib.set_untracked(part, "apply", apply)


# Report a missing private name before any optimizer is wrapped.
check_class()
