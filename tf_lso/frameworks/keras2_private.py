"""Access to private names of Keras 2's optimizers."""

import sys

import tensorflow as tf

from tf_lso.frameworks import keras_versions
from tf_lso.frameworks import variables as variables_lib

# Methods of OptimizerV2 that TensorFlow and Keras call on the optimizer of a model. If that
# optimizer is a wrapper, the wrapper must forward the calls to the inner optimizer.
OF_INNER_OPTIMIZER = ("_aggregate_gradients", "_restore_slot_variable")

# Both names of the method that sums gradients over replicas. OptimizerV2 and all optimizers
# that Horovod creates have the first name. The newer optimizers of Keras 2 have the second
# name. Keras 3's own optimizers have neither name.
_AGGREGATIONS = ("_aggregate_gradients", "aggregate_gradients")

# Keras 2's own wrapper sets this attribute too.
MARK = "_is_wrapped_by_loss_scale_optimizer"


# --- Optimizers of both families, legacy and newer.


def own_wrapper_of_legacy(package):
    """Return the private class with which a Keras 2 package wraps legacy optimizers."""
    # The public LossScaleOptimizer of Keras 2 is not a base class of this private class.
    module = keras_versions.private(package, "mixed_precision.loss_scale_optimizer")
    return module.LossScaleOptimizer


def name_of(optimizer):
    """Return an optimizer's name. Legacy optimizers have no public attribute `name`."""
    return optimizer._name


def is_marked(optimizer):
    return getattr(optimizer, MARK, False)


def mark(optimizer):
    """Mark an optimizer as wrapped, so that neither tf_lso nor Keras 2 wraps it again."""
    variables_lib.set_untracked(optimizer, MARK, True)


def unmark(optimizer):
    vars(optimizer).pop(MARK, None)


def unlisted_variables(optimizer):
    """Return a list of an optimizer's variables that `optimizer.variables` omits."""
    # The newer Nadam omits a variable, and no other optimizer of Keras 2 does.
    return [optimizer._u_product] if hasattr(optimizer, "_u_product") else []


def initialize_in_sessions(package, variables):
    """In graphs of TensorFlow 1, make Keras 2's sessions initialize `variables`."""
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
    """Return whether an optimizer class inherits its gradient aggregation from `base`."""
    return all(
        getattr(cls, name, None) is getattr(base, name, None) for name in _AGGREGATIONS
    )


def is_made_by_horovod(optimizer):
    names = ("_HAS_AGGREGATE_GRAD", "_aggregate_gradients")
    return all(hasattr(type(optimizer), name) for name in names)


# --- Legacy optimizers.


def build_legacy(optimizer, variables):
    """Create the step counter, the hyperparameters and the slots of a legacy optimizer."""
    # Give the variables the same names as the optimizer's own `apply_gradients` would.
    with tf.name_scope(name_of(optimizer)):
        optimizer._create_all_weights(variables)


def create_hyperparameters(optimizer):
    optimizer._create_hypers()


def listed_weights(optimizer):
    """Return the list (not a copy) that contains a legacy optimizer's weights."""
    return optimizer._weights


def has_slot(optimizer, variable, slot):
    try:
        optimizer.get_slot(variable, slot)
    except KeyError:
        return False
    return True


def compute_gradients(optimizer, loss, var_list, grad_loss, tape):
    return optimizer._compute_gradients(loss, var_list, grad_loss, tape=tape)


def transforms(optimizer, base):
    """Return whether an optimizer overrides the method that `transformed` calls."""
    method = optimizer._transform_unaggregated_gradients
    return (
        getattr(method, "__func__", None) is not base._transform_unaggregated_gradients
    )


def transformed(optimizer, grads_and_vars):
    """Transform gradients as a legacy optimizer does before it sums them over replicas."""
    return optimizer._transform_unaggregated_gradients(grads_and_vars)


def decayed_lr(optimizer, var_dtype):
    return optimizer._decayed_lr(var_dtype)


# --- The newer optimizers.


def own_variables(optimizer):
    return optimizer._variables


def known_variables(optimizer):
    """Return (indices, key), by which Keras 2 finds the index of a model variable.

    `key(variable)` returns the key of a model variable in the dict `indices`, which contains
    the variables for which the optimizer was built.
    """
    # A user's class may override `build` without setting `_index_dict`.
    return getattr(optimizer, "_index_dict", {}), optimizer._var_key
