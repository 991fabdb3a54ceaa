"""Convert between loss scales, the arguments of optimizers, and configs."""

import dataclasses
from typing import Any, TypeAlias

from tf_lso.scaling import rule as rule_lib
from tf_lso.scaling.loss_scale import (
    IN_CONFIGS,
    DynamicLossScale,
    FixedLossScale,
    LossScale,
)
from tf_lso.scaling.rule import ScaleRule

_Dict: TypeAlias = dict[str, Any]


def make(dynamic: bool, arguments: _Dict) -> LossScale:
    """Return the loss scale for these arguments of a `LossScaleOptimizer`."""
    names = rule_lib.OF_OPTIMIZER
    given = {f: arguments[name] for f, name in names.items() if name in arguments}
    if not dynamic:
        return _make_fixed(given)
    optional = ("initial_scale", "growth_steps", "max_scale")
    rule = rule_lib.checked_rule(names, ScaleRule(), optional, **given)
    if rule.growth_factor < 1:
        raise ValueError(
            f"'growth_factor' must be at least 1, but got: {rule.growth_factor!r}."
        )
    return DynamicLossScale(
        rule.initial_scale,
        rule.growth_steps,
        rule.growth_factor,
        backoff_factor=rule.backoff_factor,
        min_loss_scale=rule.min_scale,
        max_loss_scale=rule.max_scale,
    )


def _make_fixed(given):
    scale = given.pop("initial_scale", None)
    if scale is None:
        raise ValueError(
            "'initial_scale' must be specified if 'dynamic' is False, but got: None."
        )
    defaults = dataclasses.asdict(ScaleRule()) | {
        "growth_steps": None,
        "max_scale": None,
    }
    for field, value in given.items():
        if value != defaults[field]:
            raise ValueError(
                f"{rule_lib.OF_OPTIMIZER[field]!r} must not be given if 'dynamic' is False, "
                f"but got: {value!r}."
            )
    return FixedLossScale.of(rule_lib.positive_number("initial_scale", scale))


def arguments_of(loss_scale: Any) -> _Dict:
    """Return the arguments of `LossScaleOptimizer` that make an equal loss scale."""
    if isinstance(loss_scale, FixedLossScale):
        scale = loss_scale.get_config()["loss_scale_value"]
        return {"dynamic": False, "initial_scale": scale, "dynamic_growth_steps": None}
    rule = loss_scale._rule
    if rule.backoff_factor is None and rule.growth_factor == 2:
        # A multiplication by 0.5 gives the same result as the division by 2. The factor 0.5
        # is the default of `LossScaleOptimizer`, so the returned dict omits it.
        rule = dataclasses.replace(rule, backoff_factor=0.5)
    arguments = rule_lib.arguments_of(
        rule, rule_lib.OF_OPTIMIZER, ScaleRule(), always=IN_CONFIGS[:2]
    )
    return {"dynamic": True, **arguments}


CLASSES = {cls.__name__: cls for cls in (FixedLossScale, DynamicLossScale)}


def get(identifier: Any, custom_objects: _Dict | None = None) -> LossScale | None:
    """Return the loss scale that `identifier` stands for.

    Args:
      identifier: a `LossScale` or None is returned unchanged. An int or float of at least 1
        gives a fixed scale. "dynamic" gives a dynamic scale. A dict is passed to
        `deserialize`.
      custom_objects: dict that maps names in configs to further `LossScale` classes.

    Raises:
      ValueError: for any other identifier.

    >>> from tf_lso.scaling import loss_scale_configs
    >>> loss_scale_configs.get(128)
    FixedLossScale(128.0)

    Source: `get` of TensorFlow 2.0-2.8's loss_scale module.
    """
    if identifier is None or isinstance(identifier, LossScale):
        return identifier
    if isinstance(identifier, (int, float)):
        return FixedLossScale(identifier)
    if isinstance(identifier, str) and identifier == "dynamic":
        return DynamicLossScale()
    if isinstance(identifier, dict):
        return deserialize(identifier, custom_objects)
    raise ValueError(
        f"Could not interpret loss scale identifier: {identifier!r}. Pass 'dynamic', a "
        "Python int or float of at least 1, or a LossScale such as "
        "DynamicLossScale(initial_loss_scale=2**15)."
    )


def serialize(loss_scale: LossScale | None) -> _Dict | None:
    """Return the config of a loss scale as a dict. For None return None."""
    if loss_scale is None:
        return None
    return {"class_name": type(loss_scale).__name__, "config": loss_scale.get_config()}


def deserialize(config: _Dict, custom_objects: _Dict | None = None) -> LossScale:
    """Return the loss scale for a config that `serialize` returned.

    `custom_objects` is a dict that maps names in configs to further `LossScale` classes.
    """
    try:
        name, arguments = config["class_name"], dict(config["config"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            "A loss scale's config must have the keys 'class_name' and 'config', but "
            f"got: {config!r}."
        ) from error
    known = {**CLASSES, **(custom_objects or {})}
    if name not in known:
        raise ValueError(
            f"Unknown loss scale: {name!r}. Known are {sorted(known)}; pass a class of "
            "your own in `custom_objects`."
        )
    return known[name].from_config(arguments)
