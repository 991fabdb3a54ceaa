"""The options of a dynamic loss scale: their names in each class, and their checks.

A further option is one row of `OPTIONS`, a field of `ScaleRule`, which has its default,
and a line in the docstrings of the classes.
"""

import dataclasses
import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from tf_lso.scaling import rule as rule_lib
from tf_lso.scaling.rule import ScaleRule

STABLE, DYNAMIC = "stable", "dynamic"


def positive_number(name, value):
    """Return `value` as a float, or raise an error that names the argument.

    TensorFlow's own classes took numbers, NumPy and TensorFlow scalars, and strings.

    Raises:
      TypeError, ValueError: if it cannot be a number.
      ValueError: if it is not positive and finite as a float32.
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


def positive_integer(name, value):
    """Return `value` as an int from 1 to the largest int64; else as `positive_number`."""
    refusal = f"{name!r} must be a positive whole number (int64), but got: {value!r}."
    try:
        number = int(value)
        whole = isinstance(value, str) or number == value
    except (TypeError, ValueError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(refusal) from error
    if not whole or not 1 <= number < 2**63:
        raise ValueError(refusal)
    return number


def _shrinking(name, value):
    number = positive_number(name, value)
    if number >= 1:
        raise ValueError(
            f"{name!r} must be less than 1, since the scale is multiplied by it to "
            f"shrink, but got: {value!r}."
        )
    return number


class Option(NamedTuple):
    """One option.

    Attributes:
      field: its field of `ScaleRule`.
      stable: its argument of `LossScaleOptimizer`.
      dynamic: its argument of `DynamicLossScale`, which has it as an attribute too.
      check: callable, (name, value) -> the value for the rule; the name is for messages.
      unset: the classes in which None stands for the default.
    """

    field: str
    stable: str
    dynamic: str
    check: Callable[[str, Any], Any]
    unset: tuple[str, ...] = ()

    def default(self, of):
        """Return the default of its argument of a class, `STABLE` or `DYNAMIC`."""
        return None if of in self.unset else getattr(ScaleRule, self.field)


OPTIONS = (
    Option(
        "initial_scale",
        "initial_scale",
        "initial_loss_scale",
        positive_number,
        (STABLE,),
    ),
    Option(
        "growth_steps",
        "dynamic_growth_steps",
        "increment_period",
        positive_integer,
        (STABLE,),
    ),
    Option("growth_factor", "growth_factor", "multiplier", positive_number),
    Option(
        "backoff_factor", "backoff_factor", "backoff_factor", _shrinking, (DYNAMIC,)
    ),
    Option("hysteresis", "hysteresis", "hysteresis", positive_integer),
    Option("min_scale", "min_scale", "min_loss_scale", positive_number),
    Option(
        "max_scale", "max_scale", "max_loss_scale", positive_number, (STABLE, DYNAMIC)
    ),
)


def names(of):
    """Return the arguments of a class that are options, a list."""
    return [getattr(option, of) for option in OPTIONS]


def signature(cls, of, hidden=()):
    """Return the signature of a class: its own arguments, then the other options.

    Args:
      cls: the class, whose constructor takes the other options as keywords.
      of: `STABLE` or `DYNAMIC`.
      hidden: names of arguments that are left out.
    """
    own = list(inspect.signature(cls.__init__).parameters.values())[1:]
    own = [p for p in own if p.kind is not p.VAR_KEYWORD and p.name not in hidden]
    known = {p.name for p in own}
    for option in OPTIONS:
        name, default = getattr(option, of), option.default(of)
        if name not in known:
            kind = float | None if default is None else type(default)
            own.append(
                inspect.Parameter(
                    name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=default,
                    annotation=kind,
                )
            )
    return inspect.Signature(own)


def default_backoff(growth_factor):
    """Return the back-off of a `DynamicLossScale` that was given none.

    TensorFlow's divided by its multiplier. So does ours where a program chose one.
    """
    chosen = growth_factor != ScaleRule.growth_factor
    return None if chosen else ScaleRule.backoff_factor


def make_rule(of, given):
    """Return the `ScaleRule` of arguments of a class, `STABLE` or `DYNAMIC`.

    Args:
      of: the class.
      given: dict of its arguments that are options. Those that are missing have their
        default.

    Raises:
      TypeError, ValueError: if a value is refused; the message has its name.
    """
    fields = {
        option.field: option.check(name, given[name])
        for option, name in zip(OPTIONS, names(of))
        if name in given and not (given[name] is None and of in option.unset)
    }
    rule = ScaleRule(**fields)
    if of == DYNAMIC and "backoff_factor" not in fields:
        backoff = default_backoff(rule.growth_factor)
        rule = dataclasses.replace(rule, backoff_factor=backoff)
    named = {option.field: name for option, name in zip(OPTIONS, names(of))}
    for field in ("initial_scale", "min_scale"):
        if getattr(rule, field) > rule.max_scale:
            value = given.get(named[field])
            value = getattr(rule, field) if value is None else value
            limit = named["max_scale"]
            raise ValueError(
                f"{named[field]!r} ({value!r}) must not exceed {limit!r} "
                f"({given[limit]!r})."
            )
    return rule


def arguments_of(rule, of):
    """Return the arguments that make an equal rule, a dict, see `make_rule`."""
    fields = dataclasses.asdict(rule)
    if rule.max_scale == ScaleRule.max_scale:
        fields["max_scale"] = None
    return {name: fields[option.field] for option, name in zip(OPTIONS, names(of))}


def set_arguments_of(rule, of):
    """Return what `arguments_of` does, without those that have their default."""
    backoff = default_backoff(rule.growth_factor)
    usual = ScaleRule() if of == STABLE else ScaleRule(backoff_factor=backoff)
    usual = arguments_of(usual, of).items()
    return dict(item for item in arguments_of(rule, of).items() if item not in usual)
