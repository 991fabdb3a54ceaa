"""The private names of Keras 3's optimizers and variables that tf_lso needs.

No public names do the same. If Keras has moved one of the private names, `check_class` or
`check_instance` raises an ImportError. Some functions change a single optimizer. They are
rows of `install.table`, from which the page of changes is written.
"""

import operator

import tensorflow as tf

from tf_lso.frameworks import graphs, keras_versions, tf_private
from tf_lso.frameworks import variables as variables_lib

# The names in checkpoints of the variables that each optimizer of Keras 3 has. A wrapper has
# such variables as well, but never uses them.
OF_EACH_OPTIMIZER = {"_iterations", "_learning_rate"}

_AGGREGATES = "_all_reduce_sum_gradients"

# Private name -> the first version of Keras that has it.
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

# The learning rate, which is a variable or a schedule.
learning_rate = operator.attrgetter("_learning_rate")
# The model variables that an optimizer was built for.
built_variables = operator.attrgetter("_trainable_variables")
# The variables that Keras's base class has made for an optimizer.
own_variables = operator.attrgetter("_variables")
# A pair of a dict and a function. The dict is {key: index} of the variables that an optimizer
# was built for. The function returns the key of a variable.
known_variables = operator.attrgetter("_trainable_variables_indices", "_var_key")


def _is_in_this_keras(name):
    return keras_versions.is_at_least("keras", *{**_OF_CLASS, **_OF_INSTANCE}[name])


def _check(owner, cls, names):
    for name in filter(_is_in_this_keras, names):
        if not hasattr(owner, name):
            there, moved = keras_versions.version("keras"), f"{cls.__name__}.{name}"
            raise tf_private.moved("keras", there, moved, __file__)


def check_class():
    """Raise ImportError if the class of optimizers lacks a name that it must have."""
    cls = keras_versions.public("keras").optimizers.Optimizer
    _check(cls, cls, _OF_CLASS)


def check_instance(optimizer):
    """Raise ImportError if an optimizer lacks a name that its constructor must set."""
    _check(optimizer, type(optimizer), _OF_INSTANCE)


def iteration_variable(optimizer):
    """Return the variable that counts steps.

    With gradient accumulation, `iterations` is not this variable, but this variable divided
    by the number of accumulated steps.
    """
    # Versions of Keras without the private name have no gradient accumulation.
    is_there = _is_in_this_keras("_iterations")
    return optimizer._iterations if is_there else optimizer.iterations


def set_built_variables(optimizer, variables):
    """Set the list `built_variables` without Keras tracking it as the optimizer's own state."""
    variables_lib.set_untracked(optimizer, "_trainable_variables", list(variables))


def scale_nothing(optimizer):
    """Set `loss_scale_factor` to None, so that only the wrapper divides by a loss scale."""
    optimizer.loss_scale_factor = None


def build_under(optimizer, strategy):
    """Let the optimizer create and update its variables under the model's strategy."""
    variables_lib.set_untracked(optimizer, "_distribution_strategy", strategy)


def aggregates():
    """Return whether optimizers aggregate gradients. They do so since Keras 3.2."""
    return _is_in_this_keras(_AGGREGATES)


def sum_gradients_only_once(optimizer, instead=list):
    """In the wrapper's steps, do not sum gradients over replicas, which are summed already."""
    # Instead of summing, `instead` is called with (gradient, variable) pairs, which are clipped
    # already, and returns pairs. The wrapper must sum before the inner optimizer clips,
    # because it checks whether the sums are finite, and clipping comes last, as in legacy
    # optimizers.
    if _AGGREGATES in vars(optimizer) or not aggregates():
        return  # the optimizer was changed before, or never aggregates
    keras_sum = optimizer._all_reduce_sum_gradients

    def sum_gradients(grads_and_vars):
        return (instead if _summed.is_on else keras_sum)(grads_and_vars)

    variables_lib.set_untracked(optimizer, _AGGREGATES, sum_gradients)


def already_summed():
    """Return a context in which optimizers do not aggregate gradients again."""
    return _summed.on()


def count_steps_once(optimizer):
    """In the wrapper's steps, count each step exactly once, also with threads or replicas."""
    # Keras 3 reads the counter and then assigns it, so steps of other threads can be lost.
    # If the counter is not mirrored, each replica adds 1 to it.
    variable = iteration_variable(optimizer)
    keras_assign, keras_assign_add = variable.assign, variable.assign_add

    def assign_add(value):
        if not _summed.is_on:
            return keras_assign_add(value)
        raw = variable.value
        mirrored = isinstance(raw, tf.distribute.DistributedValues)
        return raw.assign_add(value) if mirrored or graphs.is_first_replica() else raw

    def assign(value):
        # Keras 3.0 assigns the counter plus 1 at the end of a step.
        return assign_add(1) if _summed.is_on else keras_assign(value)

    variables_lib.set_untracked(variable, "assign_add", assign_add)
    variables_lib.set_untracked(variable, "assign", assign)


def build_as_bare(optimizer, variables):
    """Build an optimizer in the way in which one without a wrapper would be built.

    This matters only if a function is being traced.
    """
    # TensorFlow traces a function a second time if it has made variables. The variables
    # remain, but the first trace is dropped. Here a separate function makes the variables,
    # with the same effect. This works even if the function around it must not make any.
    if not tf.executing_eagerly():
        before = len(optimizer.variables)
        build = tf.function(lambda: optimizer.build(variables), autograph=False)
        try:
            build.get_concrete_function()
            return
        except Exception:
            if optimizer.built or len(optimizer.variables) != before:
                raise
    # The build of some optimizers reads the values of variables and cannot be traced. An
    # example is a MultiOptimizer whose parts were copied. Such a build runs outside the graph.
    with tf.init_scope():
        optimizer.build(variables)


def tolerate_no_gradients(part):
    """In the wrapper's steps, accept that a part of a MultiOptimizer gets no gradient."""
    # Keras 3 would raise an error here, after other parts have updated their variables.
    keras_apply = part.apply

    def apply(grads, trainable_variables=None):
        if not _summed.is_on or any(gradient is not None for gradient in grads):
            keras_apply(grads, trainable_variables)

    variables_lib.set_untracked(part, "apply", apply)


check_class()  # at import, since a missing name would otherwise go unnoticed
