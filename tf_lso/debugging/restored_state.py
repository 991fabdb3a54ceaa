"""Restore the variables and the random state that `explain` changes when it runs a model."""

import contextlib
import itertools
import random

import numpy as np
import tensorflow as tf

from tf_lso.frameworks import keras_versions, layers, tf_private
from tf_lso.frameworks import variables as variables_lib

_seeds = itertools.count(0x5CA1E)


@contextlib.contextmanager
def restored(model):
    """Restore the model's variables, random generators and eager mode after a `with` block."""
    parts, generators = _parts(model), _global_generators()
    metrics = [variable for metric in model.metrics for variable in metric.variables]
    states = [getattr(value, "state", None) for _, _, value in generators]
    with contextlib.ExitStack() as undo:
        for variable in _local_variables(*model.variables, *metrics, *parts, *states):
            # `read_value` shares the buffer of the variable. The result stays valid, because a
            # later assignment gives the variable a new buffer.
            undo.callback(variable.assign, variable.read_value())
        for part in parts:
            # A random generator of Keras 2 counts its seeds in a Python attribute.
            if hasattr(part, "make_legacy_seed"):
                undo.callback(vars(part).update, dict(vars(part)))
        undo.callback(random.setstate, random.getstate())
        undo.callback(np.random.set_state, np.random.get_state())
        for generator in generators:
            undo.callback(setattr, *generator)
        eagerly = tf.config.functions_run_eagerly()
        undo.callback(tf.config.run_functions_eagerly, eagerly)
        _use_other_seeds(undo)
        yield


def _parts(model):
    """Return the layers of a model and all objects that they track, except optimizers."""
    found, waiting = {}, layers.all_layers(model)
    while waiting:
        part = waiting.pop()
        if id(part) in found or hasattr(part, "apply_gradients"):
            continue
        found[id(part)] = part
        # TensorFlow raises a ValueError for the children of a tracked list whose elements were
        # replaced (tensorflow#36916).
        with contextlib.suppress(ValueError):
            waiting += tf.train.TrackableView.children(part).values()
        if generator := layers.random_generator(part):
            waiting.append(generator)
    return list(found.values())


def _global_generators():
    """Return (owner, attribute, value) for each global random generator."""
    owners = [(tf_private.generators(), "global_generator")]
    if keras_versions.has_keras3():
        state = keras_versions.state_of_keras3().GLOBAL_STATE_TRACKER
        owners.append((state, "global_seed_generator"))
    return [(owner, name, getattr(owner, name, None)) for owner, name in owners]


def _local_variables(*objects):
    """Return the initialized variables in `objects`, or their copies on this worker."""
    held = [v for v in objects if isinstance(variables_lib.raw(v), tf.Variable)]
    copies = [copy for v in held for copy in variables_lib.copies(v)]
    return [copy for copy in copies if copy.is_initialized()]


def _use_other_seeds(undo):
    # The kernel of an operation such as `tf.random.uniform` has a counter that cannot be reset,
    # and TensorFlow caches kernels for each seed (tensorflow#23882). With a seed of its own,
    # `explain` uses new kernels. `tf.random.set_seed` would delete the program's kernels.
    undo.callback(tf_private.use_seed(next(_seeds)))
