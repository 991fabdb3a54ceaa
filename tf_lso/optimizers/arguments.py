"""Check the constructor's arguments; errors name the remedy."""

import dataclasses

from tf_lso.scaling import arguments as scaling_arguments
from tf_lso.scaling import loss_scale as loss_scale_lib
from tf_lso.scaling.rule import ScaleRule

# Arguments of Keras 3's base class that its configs carry, with their defaults.
KERAS3_DEFAULTS = {
    "weight_decay": None,
    "clipnorm": None,
    "clipvalue": None,
    "global_clipnorm": None,
    "use_ema": False,
    "ema_momentum": 0.99,
    "ema_overwrite_frequency": None,
    "loss_scale_factor": None,
    "gradient_accumulation_steps": None,
}


def check_dynamic(dynamic):
    """Raise TypeError if `dynamic` is no bool; the message says what to write."""
    if isinstance(dynamic, bool):
        return
    if isinstance(dynamic, str) and dynamic == "dynamic":
        meant = "For a dynamic scale write LossScaleOptimizer(optimizer)."
    elif isinstance(dynamic, (int, float)):
        meant = (
            f"For a fixed scale write LossScaleOptimizer(optimizer, dynamic=False, "
            f"initial_scale={dynamic!r}), for a dynamic one that starts there "
            f"LossScaleOptimizer(optimizer, initial_scale={dynamic!r})."
        )
    else:
        meant = "Pass True for a dynamic scale, False for a fixed one."
    raise TypeError(f"'dynamic' must be a bool, but got: {dynamic!r}. {meant}")


def check_keras3_arguments(arguments):
    """Raise unless the arguments of Keras 3's base class have their defaults."""
    for name, value in arguments.items():
        if name == "loss_scale":
            raise TypeError(
                f"LossScaleOptimizer takes no 'loss_scale', but got {value!r}. Write "
                "dynamic=False, initial_scale=... for a fixed scale, and initial_scale, "
                "dynamic_growth_steps for a dynamic one."
            )
        if name not in KERAS3_DEFAULTS:
            raise TypeError(
                f"LossScaleOptimizer got an unexpected keyword argument {name!r}."
            )
        default = KERAS3_DEFAULTS[name]
        if value is not default and value != default:
            raise ValueError(
                f"LossScaleOptimizer does not support {name!r}, but got {value!r}. Set it "
                "on the inner optimizer, where it works."
            )


# Marks an optimizer that a wrapper holds. tf_keras's own wrapper sets it too.
MARK = "_is_wrapped_by_loss_scale_optimizer"


def scales_the_loss(optimizer):
    """Whether an optimizer is a LossScaleOptimizer: Keras 3's, tf_keras's or tf_lso's."""
    # All of them have it in a class name.
    return any("LossScaleOptimizer" in cls.__name__ for cls in type(optimizer).__mro__)


def check_free(inner):
    """Raise if an optimizer scales the loss itself, or is wrapped already."""
    if scales_the_loss(inner):
        raise TypeError(
            "'optimizer' must not be a LossScaleOptimizer, since the loss would be scaled "
            f"twice, but got: {inner!r}. Wrap a copy of its `inner_optimizer`."
        )
    if getattr(inner, MARK, False):
        raise ValueError(
            "'optimizer' is already wrapped by a LossScaleOptimizer, and an optimizer can "
            f"only be wrapped by one: {inner!r}. Make a new one, for instance by "
            "type(optimizer).from_config(optimizer.get_config())."
        )


@dataclasses.dataclass(frozen=True)
class Scale:
    """The arguments of the stable class that make its loss scale, with their defaults.

    With a dynamic scale, None for one of the first two means its default in `_OF_RULE`.
    """

    initial_scale: float | None = None
    dynamic_growth_steps: int | None = None
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    hysteresis: int = 1
    min_scale: float = 1.0
    max_scale: float | None = None


_OF_RULE = {
    "initial_scale": ScaleRule.initial_scale,
    "dynamic_growth_steps": ScaleRule.growth_steps,
}

# Argument of the stable class -> argument of `DynamicLossScale`, which has it as attribute.
_OF_DYNAMIC = {
    "initial_scale": "initial_loss_scale",
    "dynamic_growth_steps": "increment_period",
    "growth_factor": "multiplier",
    "backoff_factor": "backoff_factor",
    "hysteresis": "hysteresis",
    "min_scale": "min_loss_scale",
    "max_scale": "max_loss_scale",
}


def make_loss_scale(dynamic, given):
    """Return the `LossScale` that `dynamic`, a bool, and a `Scale` describe."""
    if not dynamic:
        return _fixed(given)
    named = {
        name: (name, _OF_RULE.get(name) if value is None else value)
        for name, value in vars(given).items()
    }
    growth_steps = named.pop("dynamic_growth_steps")
    rule = scaling_arguments.checked_rule(growth_steps=growth_steps, **named)
    if rule.growth_factor < 1:
        raise ValueError(
            "'growth_factor' must be at least 1, since the scale is multiplied by it to "
            f"grow, but got: {rule.growth_factor!r}."
        )
    # None halves too, and is not written, so that configs are those of TensorFlow.
    halves = (rule.growth_factor, rule.backoff_factor) == (2.0, 0.5)
    return loss_scale_lib.DynamicLossScale(
        rule.initial_scale,
        rule.growth_steps,
        rule.growth_factor,
        backoff_factor=None if halves else rule.backoff_factor,
        hysteresis=rule.hysteresis,
        min_loss_scale=rule.min_scale,
        max_loss_scale=rule.max_scale,
    )


def _fixed(given):
    if given.initial_scale is None:
        raise ValueError(
            "'initial_scale' must be specified if 'dynamic' is False: it is the scale. "
            "Got None."
        )
    for name, value in vars(given).items():
        if name != "initial_scale" and value != getattr(Scale, name):
            raise ValueError(
                f"{name!r} must not be given if 'dynamic' is False, since a fixed scale "
                f"never moves, but got: {value!r}."
            )
    return loss_scale_lib.FixedLossScale.of(
        scaling_arguments.positive_number("initial_scale", given.initial_scale)
    )


def of_loss_scale(loss_scale):
    """Return the arguments that make an equal loss scale, a dict.

    Those that legacy configs lack are in it only if they were set.

    Args:
      loss_scale: a `FixedLossScale` or a `DynamicLossScale`.
    """
    if isinstance(loss_scale, loss_scale_lib.FixedLossScale):
        scale = loss_scale.get_config()["loss_scale_value"]
        return {"dynamic": False, "initial_scale": scale, "dynamic_growth_steps": None}
    values = {ours: getattr(loss_scale, name) for ours, name in _OF_DYNAMIC.items()}
    if values["backoff_factor"] is None:
        values["backoff_factor"] = 1 / loss_scale.multiplier
    was_set = {k: v for k, v in values.items() if v != getattr(Scale, k)}
    return {"dynamic": True, **was_set}
