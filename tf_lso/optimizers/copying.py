"""Find the attributes that a copy of an optimizer needs in addition to the config.

Copies are made from configs. A config contains neither the attributes that a program has
set nor some settings of Keras itself. An attribute counts as set by the program if no
method of a class of Keras, TensorFlow or tf_lso assigns the attribute.
"""

import dis
import functools
import pickle
import types
from typing import Any

import numpy as np

from tf_lso.frameworks import keras2_private, keras_versions, tf_private
from tf_lso.frameworks import optimizer_table as table


def plain_config(config: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a config with Python numbers in place of NumPy numbers."""
    # When a program changes a hyperparameter of a legacy optimizer, Keras 2 replaces the old
    # value if it is a Python number. If the old value is a NumPy number such as a
    # `np.float32`, Keras 2 treats it like a variable and fails to assign the new value to it.
    return {k: v.item() if isinstance(v, np.generic) else v for k, v in config.items()}


def made(cls: type, config: dict[str, Any]) -> Any:
    """Make an instance of `cls` from a config. Raise ValueError if `from_config` fails."""
    try:
        return cls.from_config(config)  # type: ignore[attr-defined]
    except Exception as error:
        raise ValueError(
            f"{cls.__name__} cannot be copied, since from_config() cannot make it from "
            f"get_config(): {error} Define get_config() such that it holds all arguments "
            "of the constructor."
        ) from error


def attributes_of(owner: Any, *, is_pickle: bool) -> dict[str, Any]:
    """Return the attributes that an object has but its config does not contain.

    Args:
      owner: the optimizer or loss scale.
      is_pickle: bool, whether the attributes are for a pickle. Defaults to False.

    Returns:
      A dict that maps the names of the attributes to their values.

    Raises:
      ValueError: if `is_pickle` is True and an attribute cannot be pickled. The message names
        the attribute.
    """
    cls: Any = type(owner)
    own = _assigned_by_frameworks(cls)
    found = {}
    for name, value in vars(owner).items():
        is_programs = name not in own and not tf_private.is_of_tracking(name)
        is_setting = name in table.SETTINGS_NOT_IN_CONFIGS
        if (is_programs or is_setting) and not _is_hook(value):
            found[name] = _unwrapped(value)
    if is_pickle:
        _check_pickle(owner, found)
    return found


def set_attributes(owner: Any, attributes: dict[str, Any]) -> None:
    """Set the attributes of an object to the values that `attributes_of` has returned."""
    for name, value in attributes.items():
        setattr(owner, name, value)


def _check_pickle(owner, attributes):
    cls = type(owner).__name__
    if attributes.get(table.EXCLUDED_VARIABLES):
        raise ValueError(
            f"{cls} cannot be pickled: exclude_from_weight_decay() got variables, which "
            "another process does not have. Name them: "
            "exclude_from_weight_decay(var_names=[...])."
        )
    for name, value in attributes.items():
        try:
            pickle.dumps(value)
        except Exception as error:
            raise ValueError(
                f"{cls} cannot be pickled, since its attribute {name!r} cannot: {error}. "
                "Delete the attribute before, or make it of a class that pickle takes."
            ) from error


@functools.lru_cache(maxsize=256)
def _assigned_by_frameworks(cls):
    """Return the names of all attributes that the frameworks' own methods assign.

    These are the methods of all base classes of `cls` that belong to Keras, TensorFlow or
    tf_lso.
    """
    names = {keras2_private.MARK}
    for base in cls.__mro__:
        if _is_of_a_framework(base):
            for member in vars(base).values():
                names |= _stored(member)
    return frozenset(names)


def _stored(member):
    """Return the set of names of the attributes that a method or property assigns."""
    if isinstance(member, property):
        return set().union(*map(_stored, (member.fget, member.fset)))
    function = getattr(member, "__func__", member)
    function = getattr(function, "__wrapped__", function)
    code = getattr(function, "__code__", None)
    if code is None:
        return set()
    codes = [code, *(c for c in code.co_consts if isinstance(c, types.CodeType))]
    instructions = (i for part in codes for i in dis.get_instructions(part))
    return {i.argval for i in instructions if i.opname == "STORE_ATTR"}


def _is_of_a_framework(value):
    package = (getattr(value, "__module__", None) or "").split(".")[0]
    return package in ("tensorflow", "tf_lso") or keras_versions.is_of_one(value)


def _is_hook(value):
    """Return whether the value of an attribute is a function that tf_lso defines.

    tf_lso replaces some methods of an optimizer with such functions. A copy must not get
    these functions, because they belong to the original optimizer.
    """
    module = getattr(value, "__module__", None) or ""
    return isinstance(value, types.FunctionType) and module.startswith("tf_lso")


def _unwrapped(value):
    """Return `value` with plain dicts, lists and sets in place of tracked containers.

    TensorFlow and Keras replace the containers in attributes by tracked containers.
    """
    if isinstance(value, dict):
        return {key: _unwrapped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_unwrapped(item) for item in value]
    if isinstance(value, set):
        return set(value)
    return value
