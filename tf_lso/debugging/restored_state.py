"""Restore what a pass changes in TensorFlow and Keras: variables and random state."""

import contextlib
import itertools
import random

import numpy as np
import tensorflow as tf

from tf_lso.frameworks import keras_versions, tf_private
from tf_lso.frameworks import variables as variables_lib
from tf_lso.optimizers import wrapping

# Each pass uses the next seed, see `_use_other_seeds`.
_seeds = itertools.count(0x5CA1E)


@contextlib.contextmanager
def restored(model):
    """Restore variables, all random state and how functions run, also after an exception."""
    parts, generators = _parts(model), _global_generators()
    metrics = [variable for metric in model.metrics for variable in metric.variables]
    states = [getattr(one, "state", None) for _, _, one in generators]
    with contextlib.ExitStack() as undo:
        for variable in _local_variables(*model.variables, *metrics, *parts, *states):
            # Reading copies nothing: TensorFlow gives a variable that is assigned a new buffer.
            undo.callback(variable.assign, variable.read_value())
        for part in parts:
            # A generator of Keras 2 keeps its count in an attribute, and derives seeds from it.
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
    """Return the layers of a model and all that they track, except optimizers."""
    found, waiting = {}, wrapping.all_layers(model)
    while waiting:
        one = waiting.pop()
        if id(one) in found or hasattr(one, "apply_gradients"):
            continue
        found[id(one)] = one
        # TensorFlow refuses a list whose elements were replaced.
        with contextlib.suppress(ValueError):
            waiting += tf.train.TrackableView.children(one).values()
        # Keras 2 does not track the generator of a layer such as Dropout.
        if generator := getattr(one, "_random_generator", None):
            waiting.append(generator)
    return list(found.values())


def _global_generators():
    """Return owner, attribute and value of the generators of `tf.random` and Keras."""
    owners = [(tf_private.generators(), "global_generator")]
    if keras_versions.has_keras3():
        state = keras_versions.state_of_keras3().GLOBAL_STATE_TRACKER
        owners.append((state, "global_seed_generator"))
    return [(owner, name, getattr(owner, name, None)) for owner, name in owners]


def _local_variables(*objects):
    """Return the TensorFlow variables among some objects, on this worker."""
    held = [one for one in objects if isinstance(variables_lib.raw(one), tf.Variable)]
    copies = [copy for one in held for copy in variables_lib.copies(one)]
    return [copy for copy in copies if copy.is_initialized()]


def _use_other_seeds(undo):
    """Give random operations another seed until `undo` is closed."""
    # `tf.random.uniform` keeps its count in a kernel that is cached by its seeds, and the
    # count cannot be set back. `tf.random.set_seed` would drop the program's kernels.
    context = tf_private.eager_context()
    context.ensure_initialized()
    before = {name: vars(context).get(name) for name in ("_seed", "_rng")}
    undo.callback(vars(context).update, before)
    context._seed = next(_seeds)
    context._rng = random.Random(context._seed)
