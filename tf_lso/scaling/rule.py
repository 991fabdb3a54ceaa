"""The loss-scale rule: pure functions, used by every class, mode and test.

Nothing here imports TensorFlow. The numbers are Python or NumPy scalars, or tensors; then
`where` is `tf.where`, which takes the dtype of its first value: that one is no constant.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

_Where: TypeAlias = Callable[..., Any]
FLOAT32_MAX = float.fromhex("0x1.fffffep+127")
FLOAT32_TINY = float.fromhex("0x1p-126")  # the smallest normal number


@dataclasses.dataclass(frozen=True)
class ScaleRule:
    """How a dynamic loss scale moves, see `next_state`."""

    initial_scale: float = 2.0**15
    growth_steps: int = 2000  # consecutive finite steps before the scale grows
    growth_factor: float = 2.0
    # None divides by the growth factor, as TensorFlow's `DynamicLossScale` does.
    backoff_factor: float | None = 0.5
    hysteresis: int = 1  # skipped steps in a row before the scale shrinks
    min_scale: float = 1.0
    max_scale: float = FLOAT32_MAX


class ScaleState(NamedTuple):
    """The state of a dynamic loss scale."""

    scale: Any  # the factor of the loss, a float32 scalar
    count: Any  # finite steps since it changed or a step was skipped, an int64 scalar
    # Skipped steps in a row, an int64 scalar. It means something only while the count is
    # 0, so that a step that only counts need not write it.
    skipped: Any = 0


def select(condition: Any, if_true: Any, if_false: Any) -> Any:
    """Return one of two values, as `where` does for Python and NumPy scalars."""
    return if_true if condition else if_false


def is_usable(scale: Any) -> Any:
    """Whether `scale` can scale a loss: it is positive and finite, so not NaN."""
    return (scale > 0) & (scale <= FLOAT32_MAX)


def only_counts(rule: ScaleRule, state: ScaleState, finite: Any) -> Any:
    """Whether a step keeps the scale and adds 1 to the count, as nearly all do."""
    return finite & is_usable(state.scale) & (state.count + 1 < rule.growth_steps)


def next_state(
    rule: ScaleRule, state: ScaleState, finite: Any, where: _Where = select
) -> ScaleState:
    """Return the state after a step.

    A finite step adds 1 to the count. The `growth_steps`-th in a row multiplies the scale
    by `growth_factor`, unless the result would be above `max_scale`, and the count starts
    again. A nonfinite step starts the count again. The `hysteresis`-th in a row, and each
    that follows it, also multiplies the scale by `backoff_factor`, down to `min_scale`. A
    scale that is not usable (from a damaged checkpoint) returns to `initial_scale`.

    Source: `DynamicLossScale.update` of TensorFlow 2.0-2.15. Additions are `max_scale`,
    `min_scale` other than 1, the recovery, `backoff_factor` (as in
    `torch.amp.GradScaler`) and `hysteresis` (as in NVIDIA Apex).

    >>> rule = ScaleRule(growth_steps=2)
    >>> next_state(rule, ScaleState(8.0, 1), finite=True)
    ScaleState(scale=16.0, count=0, skipped=0)
    >>> next_state(rule, ScaleState(8.0, 1), finite=False)
    ScaleState(scale=4.0, count=0, skipped=1)
    """
    counts = only_counts(rule, state, finite)
    # Not `== 0`, which in a graph of TensorFlow 1 asks whether it is the same object.
    skipped = where(state.count < 1, state.skipped + 1, 1)
    scale = state.scale
    larger = scale * rule.growth_factor
    grown = where(larger <= rule.max_scale, larger, scale)
    divides = rule.backoff_factor is None
    smaller = scale / rule.growth_factor if divides else scale * rule.backoff_factor
    # A factor can also make "smaller" grow; it must not become inf either.
    shrunk = where(smaller <= FLOAT32_MAX, smaller, scale)
    shrunk = where(shrunk >= rule.min_scale, shrunk, rule.min_scale)
    shrunk = where(skipped >= rule.hysteresis, shrunk, scale)
    moved = where(is_usable(scale), where(finite, grown, shrunk), rule.initial_scale)
    return ScaleState(
        where(counts, scale, moved),
        where(counts, state.count + 1, 0),
        where(finite, where(counts, state.skipped, 0), skipped),
    )
