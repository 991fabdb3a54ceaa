"""Check the arguments of a dynamic loss scale, and make a `ScaleRule` from them."""

import dataclasses
import math

from tf_lso.scaling import rule as rule_lib

# These dicts map each field of `ScaleRule` to the name of the same argument of
# `LossScaleOptimizer` or of `DynamicLossScale`.
OF_OPTIMIZER = {
    "initial_scale": "initial_scale",
    "growth_steps": "dynamic_growth_steps",
    "growth_factor": "growth_factor",
    "backoff_factor": "backoff_factor",
    "hysteresis": "hysteresis",
    "min_scale": "min_scale",
    "max_scale": "max_scale",
}
OF_DYNAMIC_LOSS_SCALE = {
    "initial_scale": "initial_loss_scale",
    "growth_steps": "increment_period",
    "growth_factor": "multiplier",
    "backoff_factor": "backoff_factor",
    "hysteresis": "hysteresis",
    "min_scale": "min_loss_scale",
    "max_scale": "max_loss_scale",
}


def positive_number(name, value):
    """Return `value` as a float. Raise TypeError or ValueError if this is not possible.

    As in TensorFlow's own classes, `value` may be a number, a NumPy or TensorFlow scalar,
    or a string. The value must be positive and finite. Errors name the argument `name`.
    """
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name!r} must be a number, but got: {value!r}.") from error
    except OverflowError:
        number = math.inf
    if not (rule_lib.FLOAT32_TINY <= number <= rule_lib.FLOAT32_MAX):
        raise ValueError(
            f"{name!r} must be a positive and finite float32, but got: {value!r}."
        )
    return number


def _whole_number(name, value):
    refusal = f"{name!r} must be a positive whole number (int64), but got: {value!r}."
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(refusal) from error
    if not 1 <= number < 2**63 or not (isinstance(value, str) or number == value):
        raise ValueError(refusal)
    return number


def _shrinking_factor(name, value):
    number = positive_number(name, value)
    if number >= 1:
        raise ValueError(
            f"{name!r} must be less than 1, so that the scale shrinks, but got: {value!r}."
        )
    return number


_CHECKS = {
    "initial_scale": positive_number,
    "growth_steps": _whole_number,
    "growth_factor": positive_number,
    "backoff_factor": _shrinking_factor,
    "hysteresis": _whole_number,
    "min_scale": positive_number,
    "max_scale": positive_number,
}


def checked_rule(names, usual, optional, **fields):
    """Check values for the fields of a `ScaleRule`, and return a rule with these values.

    Args:
      names: `OF_OPTIMIZER` or `OF_DYNAMIC_LOSS_SCALE`. Error messages use the argument
        names in this dict.
      usual: `ScaleRule` that contains the defaults.
      optional: names of the fields for which None means the default.
      **fields: the values, by the names of the fields.

    Raises:
      TypeError: if a value is not a number.
      ValueError: if a value is out of its range.
    """
    checked = {}
    for field, value in fields.items():
        if value is not None or field not in optional:
            checked[field] = _CHECKS[field](names[field], value)
    rule = dataclasses.replace(usual, **checked)
    for field in ("initial_scale", "min_scale"):
        if getattr(rule, field) > rule.max_scale:
            raise ValueError(
                f"{names[field]!r} ({getattr(rule, field)!r}) must not exceed "
                f"{names['max_scale']!r} ({rule.max_scale!r})."
            )
    return rule


def arguments_of(rule, names, usual, always):
    """Return a dict of constructor arguments that make a `ScaleRule` equal to `rule`.

    The dict maps the name of each argument to its value. `usual` is the `ScaleRule` with the
    default values. The dict omits the arguments of the fields whose values are the same in
    `rule` and in `usual`, except for the fields in `always`. `names` is `OF_OPTIMIZER` or
    `OF_DYNAMIC_LOSS_SCALE`. Both map the name of each field to the name of its argument.
    """
    return {
        name: getattr(rule, field)
        for field, name in names.items()
        if field in always or getattr(rule, field) != getattr(usual, field)
    }
