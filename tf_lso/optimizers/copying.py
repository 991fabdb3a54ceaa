"""What a copy of an inner optimizer keeps though its config does not hold it.

A copy is made from the config. Configs leave out `gradient_transformers`, what
`exclude_from_weight_decay` was told, and the attributes that a program has set. An
optimizer's own attributes are told from these by an optimizer of the same class that is
made and built for this purpose.
"""

import concurrent.futures
import types

import tensorflow as tf

from tf_lso import keras_versions
from tf_lso import variables as variables_lib

# What tf_lso sets on an inner optimizer. A copy gets its own.
OF_WRAPPERS = ("_is_wrapped_by_loss_scale_optimizer", "_taken_over_by_tf_lso")
# Where newer optimizers keep keys of variables, which mean nothing in another process.
_KEYS_OF_VARIABLES = "_exclude_from_weight_decay"

_MISSING, _STATE = object(), object()


class _HoldsState(Exception):
    """A value holds variables, which a copy gets in another way."""


def made(cls, config, attributes):
    """Return an optimizer of a config, with the attributes that `attributes_of` found.

    ValueError if the class cannot be made from its config.
    """
    try:
        inner = cls.from_config(config)
    except Exception as error:
        raise ValueError(
            f"{cls.__name__} cannot be copied, since from_config() cannot make it from "
            f"get_config(): {error} Define get_config() such that it holds all arguments "
            "of the constructor."
        ) from error
    for name, value in attributes.items():
        setattr(inner, name, value)
    return inner


def attributes_of(inner, config, package, *, is_pickle):
    """Return {name: plain value} of the attributes that a config does not hold.

    `package` is the Keras of the optimizer, see `keras_versions`.

    Raises:
      ValueError: if a pickle cannot keep one.
    """
    # In a thread of its own no strategy is in scope, and no function is being traced.
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        unused, used = thread.submit(_own, type(inner), config, package).result()
    found = {}
    for name, value in vars(inner).items():
        if name.startswith("_self_") or name in OF_WRAPPERS:
            continue
        value, before = _plain_or_state(value), unused.get(name, _MISSING)
        changes_by_itself = not _are_equal(used.get(name, _MISSING), before)
        if (
            value is not _STATE
            and not changes_by_itself
            and not _are_equal(value, before)
        ):
            found[name] = value
    if is_pickle and found.get(_KEYS_OF_VARIABLES):
        raise ValueError(
            f"{type(inner).__name__} cannot be pickled: exclude_from_weight_decay() got "
            "variables, which another process does not have. Name them: "
            "exclude_from_weight_decay(var_names=[...])."
        )
    return found


def _own(cls, config, package):
    """Return the attributes that an optimizer has of its own, before and after a step.

    Both are {name: plain value}.
    """
    optimizer = made(cls, config, {})
    unused = {name: _plain_or_state(value) for name, value in vars(optimizer).items()}
    is_keras2 = keras_versions.is_keras2(package)
    variable = (tf if is_keras2 else keras_versions.public(package)).Variable
    optimizer.apply_gradients([(tf.constant(0.0), variable(0.0, name="x"))])
    return unused, {name: _plain_or_state(v) for name, v in vars(optimizer).items()}


def _plain_or_state(value):
    try:
        return _plain(value)
    except _HoldsState:
        return _STATE


def _plain(value):
    """Return a value without the wrappers in which Keras and TensorFlow track it."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        kind = tuple if isinstance(value, tuple) else list
        return kind(_plain(one) for one in value)
    if isinstance(value, (set, frozenset)):
        return {_plain(one) for one in value}
    is_variable = isinstance(variables_lib.raw(value), tf.Variable)
    if is_variable or isinstance(value, (tf.Tensor, tf.distribute.DistributedValues)):
        raise _HoldsState
    if not isinstance(value, types.FunctionType) and _is_of_a_framework(type(value)):
        raise _HoldsState  # a tracker, a strategy, a schedule, which `config_of` keeps
    return value


def _is_of_a_framework(value):
    first = getattr(value, "__module__", "").split(".")[0]
    return first in ("tensorflow", "tf_lso") or keras_versions.is_of_one(value)


def _are_equal(value, other):
    if value is other:
        return True
    if isinstance(value, types.FunctionType):
        # Constructors make functions anew for each optimizer.
        same = (
            isinstance(other, types.FunctionType) and value.__code__ is other.__code__
        )
        return same or (other is _MISSING and _is_of_a_framework(value))
    try:
        return bool(value == other)
    except Exception:  # arrays, for instance
        return False
