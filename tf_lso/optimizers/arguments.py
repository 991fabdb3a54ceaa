"""Check the constructor's arguments; errors name the remedy."""

from tf_lso.scaling import arguments as scaling_arguments
from tf_lso.scaling import loss_scale as loss_scale_lib

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
            f"twice, but got: {inner!r}. Wrap its `inner_optimizer`."
        )
    if getattr(inner, MARK, False):
        raise ValueError(
            "'optimizer' is already wrapped by a LossScaleOptimizer, and an optimizer can "
            f"only be wrapped by one: {inner!r}. Make a new one, for instance by "
            "type(optimizer).from_config(optimizer.get_config())."
        )


# The arguments of the stable class that make its loss scale, with their defaults.
SCALE_DEFAULTS = {
    "initial_scale": None,
    "dynamic_growth_steps": None,
    "growth_factor": 2.0,
    "backoff_factor": 0.5,
    "hysteresis": 1,
    "min_scale": 1.0,
    "max_scale": None,
}
_DYNAMIC_DEFAULTS = {"initial_scale": 2.0**15, "dynamic_growth_steps": 2000}


def make_loss_scale(dynamic, **given):
    """Return the `LossScale` that the constructor's arguments describe.

    Args:
      dynamic: bool.
      **given: the arguments of `SCALE_DEFAULTS`.
    """
    if not dynamic:
        return _fixed(**given)
    named = {
        name: (name, _DYNAMIC_DEFAULTS.get(name) if value is None else value)
        for name, value in {**SCALE_DEFAULTS, **given}.items()
    }
    growth_steps = named.pop("dynamic_growth_steps")
    rule = scaling_arguments.checked_rule(growth_steps=growth_steps, **named)
    if rule.growth_factor < 1:
        raise ValueError(
            "'growth_factor' must be at least 1, since the scale is multiplied by it to "
            f"grow, but got: {rule.growth_factor!r}."
        )
    usual = (rule.growth_factor, rule.backoff_factor) == (2.0, 0.5)
    return loss_scale_lib.DynamicLossScale(
        rule.initial_scale,
        rule.growth_steps,
        rule.growth_factor,
        backoff_factor=None if usual else rule.backoff_factor,
        hysteresis=rule.hysteresis,
        min_loss_scale=rule.min_scale,
        max_loss_scale=rule.max_scale,
    )


def additions(loss_scale):
    """Return the arguments that legacy configs lack, a dict of those that were set.

    Args:
      loss_scale: a `DynamicLossScale`.
    """
    values = {
        "growth_factor": loss_scale.multiplier,
        "backoff_factor": loss_scale.backoff_factor or 1 / loss_scale.multiplier,
        "hysteresis": loss_scale.hysteresis,
        "min_scale": loss_scale.min_loss_scale,
        "max_scale": loss_scale.max_loss_scale,
    }
    return {k: v for k, v in values.items() if v != SCALE_DEFAULTS[k]}


def _fixed(*, initial_scale=None, **others):
    if initial_scale is None:
        raise ValueError(
            "'initial_scale' must be specified if 'dynamic' is False: it is the scale. "
            "Got None."
        )
    for name, value in others.items():
        if value != SCALE_DEFAULTS[name]:
            raise ValueError(
                f"{name!r} must not be given if 'dynamic' is False, since a fixed scale "
                f"never moves, but got: {value!r}."
            )
    return loss_scale_lib.FixedLossScale.of(
        scaling_arguments.positive_number("initial_scale", initial_scale)
    )
