"""The rule by which a dynamic loss scale changes: its parameters, and one pure function.

Eager code, graphs and tests all use `next_state`. This module does not import TensorFlow. The
numbers may be Python scalars, NumPy scalars or tensors. The argument `where` of `next_state`
chooses between two values: it is `tf.where` for tensors, and `select` for other numbers. In
`where(condition, a, b)`, `a` is never a Python constant, because `tf.where` takes the dtype of
the result from `a`.
"""

import dataclasses
import math
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, TypeAlias

_Where: TypeAlias = Callable[..., Any]
FLOAT32_MAX = float.fromhex("0x1.fffffep+127")
FLOAT32_TINY = float.fromhex("0x1p-126")  # the smallest positive normal float32


@dataclasses.dataclass(frozen=True)
class ScaleRule:
    """The parameters of a dynamic loss scale. `next_state` explains how they work."""

    initial_scale: float = 2.0**15
    growth_steps: int = 2000
    growth_factor: float = 2.0
    # None means that the scale is divided by the growth factor to shrink, as in
    # TensorFlow's `DynamicLossScale`.
    backoff_factor: float | None = 0.5
    min_scale: float = 1.0
    max_scale: float = FLOAT32_MAX


class ScaleState(NamedTuple):
    """The scale, and the number of finite steps since the scale changed or a step was skipped.

    The scale is a float32 scalar, and the count is an int64 scalar.
    """

    scale: Any
    count: Any


def select(condition: Any, if_true: Any, if_false: Any) -> Any:
    """Return one of the two values. This is `where` for Python and NumPy scalars."""
    return if_true if condition else if_false


def is_usable(scale: Any) -> Any:
    """Return whether `scale` is positive and finite, as a loss scale must be."""
    return (scale > 0) & (scale <= FLOAT32_MAX)


def only_counts(rule: ScaleRule, state: ScaleState, finite: Any) -> Any:
    """Return whether a step only adds 1 to the count of finite steps, as most steps do."""
    return finite & is_usable(state.scale) & (state.count + 1 < rule.growth_steps)


def next_state(
    rule: ScaleRule, state: ScaleState, finite: Any, where: _Where = select
) -> ScaleState:
    """Return the state after a step.

    A finite step adds 1 to the count. When the count reaches `growth_steps`, the count
    returns to 0, and the scale is multiplied by `growth_factor` unless the product exceeds
    `max_scale`.

    A nonfinite step sets the count to 0, and multiplies the scale by `backoff_factor`. The
    scale does not fall below `min_scale`.

    If the scale is not usable, for instance because a checkpoint was damaged, the scale
    becomes `initial_scale`.

    Source: `DynamicLossScale.update` of TensorFlow 2.0-2.15. tf_lso adds `max_scale`,
    values of `min_scale` other than 1, the recovery from an unusable scale, and
    `backoff_factor` (as in `torch.amp.GradScaler`).

    >>> rule = ScaleRule(growth_steps=2)
    >>> next_state(rule, ScaleState(8.0, 1), finite=True)
    ScaleState(scale=16.0, count=0)
    >>> next_state(rule, ScaleState(8.0, 1), finite=False)
    ScaleState(scale=4.0, count=0)
    """
    counts = only_counts(rule, state, finite)
    scale = state.scale
    larger = scale * rule.growth_factor
    grown = where(larger <= rule.max_scale, larger, scale)
    divides = rule.backoff_factor is None
    smaller = scale / rule.growth_factor if divides else scale * rule.backoff_factor
    # With a growth factor below 1, the division makes the scale larger. Keep the old scale if
    # the quotient exceeds the largest float32.
    shrunk = where(smaller <= FLOAT32_MAX, smaller, scale)
    shrunk = where(shrunk >= rule.min_scale, shrunk, rule.min_scale)
    moved = where(is_usable(scale), where(finite, grown, shrunk), rule.initial_scale)
    return ScaleState(where(counts, scale, moved), where(counts, state.count + 1, 0))


# These dicts map each field of `ScaleRule` to the argument of `LossScaleOptimizer`, or of
# `DynamicLossScale`, that sets the field.
OF_OPTIMIZER = {
    "initial_scale": "initial_scale",
    "growth_steps": "dynamic_growth_steps",
    "growth_factor": "growth_factor",
    "backoff_factor": "backoff_factor",
    "min_scale": "min_scale",
    "max_scale": "max_scale",
}
OF_DYNAMIC_LOSS_SCALE = {
    "initial_scale": "initial_loss_scale",
    "growth_steps": "increment_period",
    "growth_factor": "multiplier",
    "backoff_factor": "backoff_factor",
    "min_scale": "min_loss_scale",
    "max_scale": "max_loss_scale",
}


def positive_number(name: str, value: Any) -> float:
    """Return `value` as a positive and finite float, or raise TypeError or ValueError.

    As in TensorFlow's own classes, `value` may be a number, a NumPy or TensorFlow scalar,
    or a string. A bool is refused.
    """
    _refuse_bool(name, value)
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name!r} must be a number, but got: {value!r}.") from error
    except OverflowError:
        number = math.inf
    if not (FLOAT32_TINY <= number <= FLOAT32_MAX):
        raise ValueError(
            f"{name!r} must be a positive and finite float32, but got: {value!r}."
        )
    return number


def _refuse_bool(name: str, value: Any) -> None:
    # NumPy and TensorFlow have bools of their own.
    dtype = getattr(getattr(value, "dtype", None), "name", None)
    if isinstance(value, bool) or dtype == "bool":
        raise TypeError(f"{name!r} must be a number, but got the bool {value!r}.")


def _whole_number(name: str, value: Any) -> int:
    _refuse_bool(name, value)
    refusal = f"{name!r} must be a positive whole number (int64), but got: {value!r}."
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(refusal) from error
    if not 1 <= number < 2**63 or not (isinstance(value, str) or number == value):
        raise ValueError(refusal)
    return number


def _shrinking_factor(name: str, value: Any) -> float:
    number = positive_number(name, value)
    if number >= 1:
        raise ValueError(
            f"{name!r} must be less than 1, so that the scale shrinks, but got: {value!r}."
        )
    return number


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "initial_scale": positive_number,
    "growth_steps": _whole_number,
    "growth_factor": positive_number,
    "backoff_factor": _shrinking_factor,
    "min_scale": positive_number,
    "max_scale": positive_number,
}


def checked_rule(
    names: dict[str, str], usual: ScaleRule, optional: Collection[str], **fields: Any
) -> ScaleRule:
    """Return a rule with the values `fields`, or raise TypeError or ValueError.

    `names` maps the fields to the names of arguments, for error messages. `usual` contains the
    defaults. For the fields in `optional`, None means the default.
    """
    checked = {}
    for field, value in fields.items():
        if value is not None or field not in optional:
            checked[field] = _CHECKS[field](names[field], value)
    rule = dataclasses.replace(usual, **checked)
    # If `min_scale` has its default, 1, the initial scale may be less than 1, as in TensorFlow.
    # The first skipped step then raises the scale to 1.
    is_too_low = rule.initial_scale < rule.min_scale != usual.min_scale
    if is_too_low or not rule.min_scale <= rule.max_scale >= rule.initial_scale:
        raise ValueError(
            f"{names['initial_scale']!r} must be from {names['min_scale']!r} "
            f"({rule.min_scale!r}) to {names['max_scale']!r} ({rule.max_scale!r}), but got: "
            f"{rule.initial_scale!r}."
        )
    return rule


def arguments_of(
    rule: ScaleRule, names: dict[str, str], usual: ScaleRule, always: Collection[str]
) -> dict[str, Any]:
    """Return the constructor arguments that make a `ScaleRule` equal to `rule`.

    Arguments that equal the defaults in `usual` are omitted, unless their field is in `always`.
    """
    return {
        name: getattr(rule, field)
        for field, name in names.items()
        if field in always or getattr(rule, field) != getattr(usual, field)
    }
