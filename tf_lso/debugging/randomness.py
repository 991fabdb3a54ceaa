"""Random state that belongs to no model: Python's, NumPy's, TensorFlow's, Keras's."""

import contextlib
import functools
import itertools
import random

import numpy as np

from tf_lso import keras_versions as kerases
from tf_lso import tf_private, variables

# Names of the seeds of passes, so that each pass has kernels of its own.
_seeds = itertools.count(0x5CA1E)


@contextlib.contextmanager
def restored():
    """Restore all random state at the end, also after an exception."""
    with _python(), _eager_context(), _tensorflow_generator(), _keras_generator():
        yield


@contextlib.contextmanager
def _python():
    state, numpy_state = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(state)
        np.random.set_state(numpy_state)


@contextlib.contextmanager
def _eager_context():
    """Give random operations another seed for a while.

    A stateful operation such as `tf.random.uniform` counts in its kernel, which is
    found by the operation's seeds, and no kernel's count can be set back. With seeds
    of its own the pass uses kernels of its own. `tf.random.set_seed` would forget the
    kernels of the program.
    """
    context = tf_private.eager_context()
    context.ensure_initialized()
    names = ("_seed", "_rng")  # the second only exists where a seed was set
    before = {name: vars(context)[name] for name in names if name in vars(context)}
    context._seed = next(_seeds)
    context._rng = random.Random(context._seed)
    try:
        yield
    finally:
        for name in names:
            del vars(context)[name]
        vars(context).update(before)


def _tensorflow_generator():
    module = tf_private.generators()
    return _generator(
        module.global_generator,
        functools.partial(setattr, module, "global_generator"),
    )


def _keras_generator():
    if not kerases.has_keras3():
        return contextlib.nullcontext()  # Keras 2 draws from TensorFlow's generators
    # Private: Keras has no public way to the generator behind `keras.random`.
    module = kerases.state_of_keras3()
    name = "global_seed_generator"
    return _generator(
        module.get_global_attribute(name),
        functools.partial(module.set_global_attribute, name),
    )


@contextlib.contextmanager
def _generator(generator, put_back):
    state = None if generator is None else variables.raw(generator.state).read_value()
    try:
        yield
    finally:
        put_back(generator)
        if state is not None:
            generator.state.assign(state)
