"""The loss-scale rule: pure functions, used by every face, mode and test.

Nothing here imports TensorFlow. The numbers are Python or NumPy scalars. `only_counts`
and `moved_scale` also take tensors; then `where` must be a function that selects between
two tensors. A graph almost never runs `moved_scale`.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

FLOAT32_MAX = float.fromhex("0x1.fffffep+127")
FLOAT32_TINY = float.fromhex("0x1p-126")  # the smallest normal number


@dataclasses.dataclass(frozen=True)
class ScaleRule:
    """How a dynamic loss scale moves.

    Attributes:
      initial_scale: the scale at the start. A scale that is not usable returns to it.
      growth_steps: consecutive finite steps before the scale grows.
      factor: the scale is multiplied by it to grow and divided by it to shrink.
      min_scale: the scale does not shrink below it.
      max_scale: the scale does not grow above it.
    """

    initial_scale: float = 2.0**15
    growth_steps: int = 2000
    factor: float = 2.0
    min_scale: float = 1.0
    max_scale: float = FLOAT32_MAX


class ScaleState(NamedTuple):
    """The state of a dynamic loss scale.

    Attributes:
      scale: the factor of the loss, a float32 scalar.
      count: finite steps since the scale last changed or a step was skipped,
        an int64 scalar.
    """

    scale: Any
    count: Any


def select(condition: Any, if_true: Any, if_false: Any) -> Any:
    """Return one of two values, as `where` does for Python and NumPy scalars."""
    return if_true if condition else if_false


def is_usable(scale: Any) -> Any:
    """Whether `scale` can scale a loss: it is positive and finite, so not NaN."""
    return (scale > 0) & (scale <= FLOAT32_MAX)


def only_counts(rule: ScaleRule, state: ScaleState, finite: Any) -> Any:
    """Whether a step keeps the scale and adds 1 to the count, as nearly all do."""
    return finite & is_usable(state.scale) & (state.count + 1 < rule.growth_steps)


def moved_scale(
    rule: ScaleRule, scale: Any, finite: Any, where: Callable[..., Any] = select
) -> Any:
    """Return the next scale, for a step that does not only count."""
    larger = scale * rule.factor
    grown = where(larger <= rule.max_scale, larger, scale)
    smaller = scale / rule.factor
    # A factor below 1 makes "smaller" grow; it must not become inf either.
    shrunk = where(smaller <= FLOAT32_MAX, smaller, scale)
    shrunk = where(shrunk < rule.min_scale, rule.min_scale, shrunk)
    moved = where(finite, grown, shrunk)
    return where(is_usable(scale), moved, rule.initial_scale)


def next_state(rule: ScaleRule, state: ScaleState, finite: bool) -> ScaleState:
    """Return the state after a step.

    A finite step adds 1 to the count. The `growth_steps`-th finite step in a row
    multiplies the scale by `factor`, unless the result would be above `max_scale`, and
    the count starts again. A nonfinite step divides the scale by `factor`, down to
    `min_scale`, and the count starts again. A scale that is not usable (from a damaged
    checkpoint) returns to `initial_scale`.

    Args:
      rule: how the scale moves.
      state: the state before the step.
      finite: bool, whether all gradients of the step were finite.

    Source: `DynamicLossScale.update` of TensorFlow 2.0-2.15; `max_scale`, `min_scale`
    other than 1, and the recovery are additions.

    >>> rule = ScaleRule(growth_steps=2)
    >>> next_state(rule, ScaleState(8.0, 1), finite=True)
    ScaleState(scale=16.0, count=0)
    >>> next_state(rule, ScaleState(8.0, 1), finite=False)
    ScaleState(scale=4.0, count=0)
    """
    if only_counts(rule, state, finite):
        return ScaleState(state.scale, state.count + 1)
    return ScaleState(moved_scale(rule, state.scale, finite), 0)
