"""The options of a dynamic loss scale: their names in each class, and their checks.

A further option is one row of the table, a field of `ScaleRule`, which has its default,
and a line in the docstrings of the classes.
"""

import dataclasses
import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from tf_lso.scaling import rule as rule_lib
from tf_lso.scaling.rule import ScaleRule

STABLE, DYNAMIC = "stable", "dynamic"  # `LossScaleOptimizer` and `DynamicLossScale`


def positive_number(name, value):
    """Return `value` as a float. TypeError and ValueError name the argument.

    TensorFlow's own classes took numbers, NumPy and TensorFlow scalars, and strings.
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


def _whole(name, value):
    refusal = f"{name!r} must be a positive whole number (int64), but got: {value!r}."
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(refusal) from error
    if not 1 <= number < 2**63 or not (isinstance(value, str) or number == value):
        raise ValueError(refusal)
    return number


def _shrinking(name, value):
    number = positive_number(name, value)
    if number >= 1:
        raise ValueError(
            f"{name!r} must be less than 1, so that the scale shrinks, but got: {value!r}."
        )
    return number


class Option(NamedTuple):
    """One row of the table."""

    field: str  # of `ScaleRule`
    stable: str  # argument of `LossScaleOptimizer`
    dynamic: str  # argument of `DynamicLossScale`, which has it as an attribute too
    check: Callable[[str, Any], Any]  # (name for messages, value) -> value of the field
    unset: tuple[str, ...]  # the classes in which None stands for the default

    def default(self, of):
        """Return the default of its argument of a class, `STABLE` or `DYNAMIC`."""
        return None if of in self.unset else getattr(ScaleRule, self.field)


_ROWS: Any = (
    ("initial_scale", "initial_scale", "initial_loss_scale", positive_number, STABLE),
    ("growth_steps", "dynamic_growth_steps", "increment_period", _whole, STABLE),
    ("growth_factor", "growth_factor", "multiplier", positive_number),
    ("backoff_factor", "backoff_factor", "backoff_factor", _shrinking, DYNAMIC),
    ("hysteresis", "hysteresis", "hysteresis", _whole),
    ("min_scale", "min_scale", "min_loss_scale", positive_number),
    ("max_scale", "max_scale", "max_loss_scale", positive_number, STABLE, DYNAMIC),
)
OPTIONS = [Option._make([*row[:4], row[4:]]) for row in _ROWS]
_LEGACY = {STABLE: 2, DYNAMIC: 3}  # how many of them the legacy class had


def names(of):
    """Return the arguments of a class that are options, a list."""
    return [getattr(option, of) for option in OPTIONS]


def signature(cls, of, hidden=()):
    """Return the signature of a class, with the options that it takes as `**keywords`."""
    own = list(inspect.signature(cls.__init__).parameters.values())[1:]
    shown = [p for p in own if p.kind is not p.VAR_KEYWORD and p.name not in hidden]
    for option in OPTIONS:
        name, default = getattr(option, of), option.default(of)
        kind = float | None if default is None else type(default)
        if name not in [p.name for p in own]:
            other = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)
            shown.append(other.replace(default=default, annotation=kind))
    return inspect.Signature(shown)


def _usual(of, growth_factor):
    """Return the rule of a class that was given this factor alone."""
    # TensorFlow's `DynamicLossScale` divided by it. So does ours where a program chose it.
    divides = of == DYNAMIC and growth_factor != ScaleRule.growth_factor
    return ScaleRule(backoff_factor=None) if divides else ScaleRule()


def make_rule(of, given):
    """Return the `ScaleRule` of arguments of a class, a dict; errors name the argument."""
    named = {option.field: name for option, name in zip(OPTIONS, names(of))}
    fields = {
        option.field: option.check(name, given[name])
        for option, name in zip(OPTIONS, names(of))
        if name in given and not (given[name] is None and of in option.unset)
    }
    usual = _usual(of, fields.get("growth_factor", ScaleRule.growth_factor))
    rule = dataclasses.replace(usual, **fields)
    for field in ("initial_scale", "min_scale"):
        if getattr(rule, field) > rule.max_scale:
            raise ValueError(
                f"{named[field]!r} ({getattr(rule, field)!r}) must not exceed "
                f"{named['max_scale']!r} ({rule.max_scale!r})."
            )
    return rule


def arguments_of(rule, of):
    """Return the arguments that make an equal rule, a dict, see `make_rule`."""
    fields = dataclasses.asdict(rule)
    if rule.max_scale == ScaleRule.max_scale:
        fields["max_scale"] = None
    return {name: fields[option.field] for option, name in zip(OPTIONS, names(of))}


def config_of(rule, of):
    """Return the config of a class, a dict: what legacy classes had, and what was set."""
    usual = arguments_of(_usual(of, rule.growth_factor), of)
    legacy = names(of)[: _LEGACY[of]]
    given = arguments_of(rule, of).items()
    return {name: x for name, x in given if name in legacy or x != usual[name]}
