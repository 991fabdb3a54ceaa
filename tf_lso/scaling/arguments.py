"""Check the numbers that a loss scale is made of."""

import dataclasses
import math

import numpy as np

from tf_lso.scaling import rule as rule_lib


def positive_number(name, value):
    """Return `value` as a float, or raise an error that names the argument.

    Args:
      name: the argument's name, for the message.
      value: a number, a NumPy or TensorFlow scalar, or a numeric string. TensorFlow's
        own classes took all of these.

    Raises:
      TypeError: if it cannot be a number.
      ValueError: if it is not positive and finite as a float32.
    """
    try:
        number = float(value)
    except TypeError as error:
        raise TypeError(f"{name!r} must be a number, but got: {value!r}.") from error
    except ValueError as error:
        raise ValueError(f"{name!r} must be a number, but got: {value!r}.") from error
    except OverflowError:
        number = math.inf
    if not (rule_lib.FLOAT32_TINY <= number <= rule_lib.FLOAT32_MAX):
        raise ValueError(
            f"{name!r} must be a positive and finite float32, but got: {value!r}."
        )
    return number


def positive_integer(name, value):
    """Return `value` as an int from 1 to the largest int64, or raise an error.

    Args:
      name: the argument's name, for the message.
      value: as for `positive_number`.

    Raises:
      TypeError: if it cannot be a number.
      ValueError: if it is no whole number in that range.
    """
    refusal = f"{name!r} must be a positive whole number (int64), but got: {value!r}."
    try:
        number = int(value)
        whole = isinstance(value, str) or number == value
    except TypeError as error:
        raise TypeError(refusal) from error
    except (ValueError, OverflowError) as error:
        raise ValueError(refusal) from error
    if not whole or not 1 <= number < 2**63:
        raise ValueError(refusal)
    return number


def checked_rule(
    *,
    initial_scale,
    growth_steps,
    growth_factor,
    backoff_factor,
    hysteresis,
    min_scale,
    max_scale,
):
    """Return the `ScaleRule` of arguments given as (name, value) pairs.

    The names are for the messages.

    Raises:
      TypeError, ValueError: if a value is refused; the message has its name.
    """
    maximum = rule_lib.FLOAT32_MAX
    if max_scale[1] is not None:
        maximum = positive_number(*max_scale)
    backoff = None
    if backoff_factor[1] is not None:
        backoff = positive_number(*backoff_factor)
        if backoff >= 1:
            raise ValueError(
                f"{backoff_factor[0]!r} must be less than 1, since the scale is multiplied "
                f"by it to shrink, but got: {backoff_factor[1]!r}."
            )
    rule = rule_lib.ScaleRule(
        initial_scale=positive_number(*initial_scale),
        growth_steps=positive_integer(*growth_steps),
        growth_factor=positive_number(*growth_factor),
        backoff_factor=backoff,
        hysteresis=positive_integer(*hysteresis),
        min_scale=positive_number(*min_scale),
        max_scale=maximum,
    )
    for name, value in (initial_scale, min_scale):
        if float(value) > maximum:
            raise ValueError(
                f"{name!r} ({value!r}) must not exceed {max_scale[0]!r} ({max_scale[1]!r})."
            )
    return rule


def in_float32(rule):
    """Return a `ScaleRule` with float32 scales, as graphs have them."""
    names = ("initial_scale", "growth_factor", "min_scale", "max_scale")
    if rule.backoff_factor is not None:
        names += ("backoff_factor",)
    return dataclasses.replace(
        rule, **{name: np.float32(getattr(rule, name)) for name in names}
    )
