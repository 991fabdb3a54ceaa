"""The rule by which a loss scale changes, as pure functions.

Every class, mode and test uses these functions. Nothing here imports TensorFlow: the
numbers are Python scalars, NumPy scalars or tensors. For tensors `where` is `tf.where`,
whose result has the dtype of the first of the two values. So this value is never a Python
constant.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

_Where: TypeAlias = Callable[..., Any]
FLOAT32_MAX = float.fromhex("0x1.fffffep+127")
FLOAT32_TINY = float.fromhex("0x1p-126")  # the smallest normal number


@dataclasses.dataclass(frozen=True)
class ScaleRule:
    """The parameters of a dynamic loss scale, see `next_state`."""

    initial_scale: float = 2.0**15
    growth_steps: int = 2000  # consecutive finite steps before the scale grows
    growth_factor: float = 2.0
    # None means to divide by the growth factor, as TensorFlow's `DynamicLossScale` does.
    backoff_factor: float | None = 0.5
    hysteresis: int = 1  # consecutive skipped steps before the scale shrinks
    min_scale: float = 1.0
    max_scale: float = FLOAT32_MAX


class ScaleState(NamedTuple):
    """The state of a dynamic loss scale."""

    scale: Any  # float32 scalar, the factor of the loss
    # int64 scalar, the finite steps since the scale changed or a step was skipped.
    count: Any
    # int64 scalar, the consecutive skipped steps. It is valid only while `count` is 0. So a
    # step that changes nothing but `count` need not write it.
    skipped: Any = 0


def select(condition: Any, if_true: Any, if_false: Any) -> Any:
    """Return one of two values. This function is `where` for Python and NumPy scalars."""
    return if_true if condition else if_false


def is_usable(scale: Any) -> Any:
    """Return whether `scale` is positive and finite, so that it can scale a loss."""
    return (scale > 0) & (scale <= FLOAT32_MAX)


def only_counts(rule: ScaleRule, state: ScaleState, finite: Any) -> Any:
    """Return whether a step keeps the scale and adds 1 to the count, like nearly all steps."""
    return finite & is_usable(state.scale) & (state.count + 1 < rule.growth_steps)


def next_state(
    rule: ScaleRule, state: ScaleState, finite: Any, where: _Where = select
) -> ScaleState:
    """Return the state after a step.

    A finite step adds 1 to the count. When the count reaches `growth_steps`, it returns to
    0, and the scale is multiplied by `growth_factor` unless the product exceeds `max_scale`.

    A nonfinite step sets the count to 0. If at least `hysteresis` consecutive steps were
    nonfinite, including this one, the step also multiplies the scale by `backoff_factor`,
    but not below `min_scale`.

    A scale that is not usable, for instance from a damaged checkpoint, becomes
    `initial_scale`.

    Source: `DynamicLossScale.update` of TensorFlow 2.0-2.15. Additions are `max_scale`,
    other values of `min_scale` than 1, the recovery of an unusable scale,
    `backoff_factor` (as in `torch.amp.GradScaler`) and `hysteresis` (as in NVIDIA Apex).

    >>> rule = ScaleRule(growth_steps=2)
    >>> next_state(rule, ScaleState(8.0, 1), finite=True)
    ScaleState(scale=16.0, count=0, skipped=0)
    >>> next_state(rule, ScaleState(8.0, 1), finite=False)
    ScaleState(scale=4.0, count=0, skipped=1)
    """
    counts = only_counts(rule, state, finite)
    # Do not write `== 0`, which in a graph of TensorFlow 1 compares the identity of objects.
    skipped = where(state.count < 1, state.skipped + 1, 1)
    scale = state.scale
    larger = scale * rule.growth_factor
    grown = where(larger <= rule.max_scale, larger, scale)
    divides = rule.backoff_factor is None
    smaller = scale / rule.growth_factor if divides else scale * rule.backoff_factor
    # With a growth factor below 1 the division makes the scale larger, perhaps infinite.
    shrunk = where(smaller <= FLOAT32_MAX, smaller, scale)
    shrunk = where(shrunk >= rule.min_scale, shrunk, rule.min_scale)
    shrunk = where(skipped >= rule.hysteresis, shrunk, scale)
    moved = where(is_usable(scale), where(finite, grown, shrunk), rule.initial_scale)
    return ScaleState(
        where(counts, scale, moved),
        where(counts, state.count + 1, 0),
        where(finite, where(counts, state.skipped, 0), skipped),
    )
