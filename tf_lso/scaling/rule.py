"""The rule by which a dynamic loss scale changes, as pure functions.

Eager code, graphs and tests all use these functions. This module does not import TensorFlow.
The numbers may be Python scalars, NumPy scalars or tensors. The argument `where` of a function
chooses between two values. It is `tf.where` for tensors, and `select` for other numbers. The
first of the two values in a call of `where` determines the dtype of the result, so the first
value is never a Python constant.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

_Where: TypeAlias = Callable[..., Any]
FLOAT32_MAX = float.fromhex("0x1.fffffep+127")
FLOAT32_TINY = float.fromhex("0x1p-126")  # the smallest positive normal float32


@dataclasses.dataclass(frozen=True)
class ScaleRule:
    """The parameters of a dynamic loss scale. `next_state` explains how they work."""

    initial_scale: float = 2.0**15
    # The number of consecutive finite steps after which the scale grows.
    growth_steps: int = 2000
    growth_factor: float = 2.0
    # None means that the scale is divided by the growth factor to shrink, as in
    # TensorFlow's `DynamicLossScale`.
    backoff_factor: float | None = 0.5
    # The number of consecutive skipped steps after which the scale shrinks.
    hysteresis: int = 1
    min_scale: float = 1.0
    max_scale: float = FLOAT32_MAX


class ScaleState(NamedTuple):
    """The state of a dynamic loss scale."""

    # `scale` is a float32 scalar by which the loss is multiplied.
    scale: Any
    # `count` is an int64 scalar: the number of finite steps since the scale last changed or a
    # step was last skipped.
    count: Any
    # `skipped` is an int64 scalar: the number of consecutive skipped steps. The number is valid
    # only while `count` is 0. So a step that only adds 1 to `count` need not write the number.
    skipped: Any = 0


def select(condition: Any, if_true: Any, if_false: Any) -> Any:
    """Return `if_true` or `if_false`. Use this as `where` for Python and NumPy scalars."""
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

    A nonfinite step sets the count to 0. If this step is at least the `hysteresis`-th
    nonfinite step in a row, the scale is also multiplied by `backoff_factor`. The scale
    does not fall below `min_scale`.

    If the scale is not usable, for instance because a checkpoint was damaged, the scale
    becomes `initial_scale`.

    Source: `DynamicLossScale.update` of TensorFlow 2.0-2.15. tf_lso adds `max_scale`,
    values of `min_scale` other than 1, the recovery from an unusable scale,
    `backoff_factor` (as in `torch.amp.GradScaler`) and `hysteresis` (as in NVIDIA Apex).

    >>> rule = ScaleRule(growth_steps=2)
    >>> next_state(rule, ScaleState(8.0, 1), finite=True)
    ScaleState(scale=16.0, count=0, skipped=0)
    >>> next_state(rule, ScaleState(8.0, 1), finite=False)
    ScaleState(scale=4.0, count=0, skipped=1)
    """
    counts = only_counts(rule, state, finite)
    # Compare by `count < 1` and not by `count == 0`, because `==` compares objects by identity
    # in a graph of TensorFlow 1.
    skipped = where(state.count < 1, state.skipped + 1, 1)
    scale = state.scale
    larger = scale * rule.growth_factor
    grown = where(larger <= rule.max_scale, larger, scale)
    divides = rule.backoff_factor is None
    smaller = scale / rule.growth_factor if divides else scale * rule.backoff_factor
    # With a growth factor below 1, the division makes the scale larger. Keep the old scale if
    # the quotient exceeds the largest float32.
    shrunk = where(smaller <= FLOAT32_MAX, smaller, scale)
    shrunk = where(shrunk >= rule.min_scale, shrunk, rule.min_scale)
    shrunk = where(skipped >= rule.hysteresis, shrunk, scale)
    moved = where(is_usable(scale), where(finite, grown, shrunk), rule.initial_scale)
    return ScaleState(
        where(counts, scale, moved),
        where(counts, state.count + 1, 0),
        where(finite, where(counts, state.skipped, 0), skipped),
    )
