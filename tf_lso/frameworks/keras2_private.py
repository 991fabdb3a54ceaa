"""The private names of Keras 2's optimizers that tf_lso needs.

No public names do the same. tests/test_private_names.py fails if Keras 2 moves one of them.
"""

import sys

import tensorflow as tf

from tf_lso.frameworks import keras_versions
from tf_lso.frameworks import variables as variables_lib

# Methods of OptimizerV2 that TensorFlow and Keras call on the optimizer of a model. On a
# wrapper they would act on the wrapper and not on its inner optimizer.
OF_INNER_OPTIMIZER = ("_aggregate_gradients", "_restore_slot_variable")

# The method that sums gradients over replicas. The first name is that of OptimizerV2 and of
# Horovod's optimizers in all families, and the second that of the newer optimizers of
# Keras 2. Optimizers of Keras 3 have neither.
_AGGREGATIONS = ("_aggregate_gradients", "aggregate_gradients")

# The attribute that marks an optimizer as wrapped. Keras 2's own wrapper sets it too.
MARK = "_is_wrapped_by_loss_scale_optimizer"


# --- Both families.


def own_wrapper_of_legacy(package):
    """Return the class of a package's own LossScaleOptimizer for legacy optimizers."""
    # The public LossScaleOptimizer is another class, from which this one does not derive.
    module = keras_versions.private(package, "mixed_precision.loss_scale_optimizer")
    return module.LossScaleOptimizer


def name_of(optimizer):
    """Return the name of an optimizer. Legacy optimizers have no public name."""
    return optimizer._name


def is_marked(optimizer):
    """Return whether an optimizer is marked as wrapped."""
    return getattr(optimizer, MARK, False)


def mark(optimizer):
    """Mark an optimizer as wrapped, so that neither tf_lso nor Keras 2 wraps it again."""
    variables_lib.set_untracked(optimizer, MARK, True)


def unmark(optimizer):
    """Remove the mark of an earlier wrapper from an optimizer, if it has one."""
    vars(optimizer).pop(MARK, None)


def unlisted_variables(optimizer):
    """Return the variables of an optimizer that its list `variables` lacks."""
    # Only the newer Nadam has one.
    return [optimizer._u_product] if hasattr(optimizer, "_u_product") else []


def initialize_in_sessions(package, variables):
    """Make sessions of Keras 2 in graphs of TensorFlow 1 initialize these variables."""
    backend = keras_versions.public(package).backend
    track = sys.modules[backend.get_value.__module__].track_variable
    for variable in variables:
        track(variable)


# --- The aggregation of gradients. These functions accept optimizers of all families.


def aggregation(optimizer):
    """Return the method of an optimizer that sums gradients over replicas, or None."""
    methods = (getattr(optimizer, name, None) for name in _AGGREGATIONS)
    return next(filter(None, methods), None)


def has_aggregation_of(cls, base):
    """Return whether a class of optimizers aggregates gradients as its base class does."""
    return all(
        getattr(cls, name, None) is getattr(base, name, None) for name in _AGGREGATIONS
    )


def is_made_by_horovod(optimizer):
    """Return whether Horovod made the class of an optimizer of Keras 3."""
    names = ("_HAS_AGGREGATE_GRAD", "_aggregate_gradients")  # Horovod defines both
    return all(hasattr(type(optimizer), name) for name in names)


# --- Legacy optimizers.


def build_legacy(optimizer, variables):
    """Create the step counter, the hyperparameters and the slots of a legacy optimizer."""
    # The optimizer's own apply_gradients uses this name scope for its variables.
    with tf.name_scope(name_of(optimizer)):
        optimizer._create_all_weights(variables)


def listed_weights(optimizer):
    """Return the list itself from which a legacy optimizer's `weights` are read."""
    return optimizer._weights


def compute_gradients(optimizer, loss, var_list, grad_loss, tape):
    """Return the (gradient, variable) pairs that `minimize` of a legacy optimizer uses."""
    return optimizer._compute_gradients(loss, var_list, grad_loss, tape=tape)


def transformed(optimizer, grads_and_vars):
    """Return pairs as a legacy optimizer transforms them before it sums over replicas."""
    return optimizer._transform_unaggregated_gradients(grads_and_vars)


def decayed_lr(optimizer, var_dtype):
    """Return the learning rate of the next step of a legacy optimizer."""
    return optimizer._decayed_lr(var_dtype)


# --- The newer optimizers.


def own_variables(optimizer):
    """Return the list of the variables that a newer optimizer made."""
    return optimizer._variables


def known_variables(optimizer):
    """Return the variables for which a newer optimizer was built, as a dict and a function.

    The dict is {key: index}. The function returns the key of a variable.
    """
    # A class of the user may override `build` and never make the dict.
    return getattr(optimizer, "_index_dict", {}), optimizer._var_key
