"""Make loss scales from numbers, strings and configs."""

from typing import Any

from tf_lso.scaling import loss_scale as loss_scale_lib

# The classes that a config may name. Users pass their own in `custom_objects`.
CLASSES = {
    cls.__name__: cls
    for cls in (loss_scale_lib.FixedLossScale, loss_scale_lib.DynamicLossScale)
}


def get(
    identifier: Any, custom_objects: dict[str, Any] | None = None
) -> loss_scale_lib.LossScale | None:
    """Return the loss scale that `identifier` stands for.

    Args:
      identifier: a `LossScale`, which is returned as it is; an int or float for a fixed
        one; "dynamic"; a config, as `serialize` returns; or None, which is returned.
      custom_objects: dict of names and further `LossScale` classes for a config.

    Returns:
      A `LossScale`, or None for None.

    Raises:
      ValueError: for anything else, or a number below 1.

    Example:
    >>> from tf_lso.scaling import identifiers
    >>> identifiers.get(128)
    FixedLossScale(128.0)

    Source: `get` of TensorFlow 2.0-2.8's loss_scale module.
    """
    if identifier is None or isinstance(identifier, loss_scale_lib.LossScale):
        return identifier
    if isinstance(identifier, (int, float)):
        return loss_scale_lib.FixedLossScale(identifier)
    if isinstance(identifier, str) and identifier == "dynamic":
        return loss_scale_lib.DynamicLossScale()
    if isinstance(identifier, dict):
        return deserialize(identifier, custom_objects)
    raise ValueError(
        f"Could not interpret loss scale identifier: {identifier!r}. Pass 'dynamic', a "
        "Python int or float of at least 1, or a LossScale such as "
        "DynamicLossScale(initial_loss_scale=2**15)."
    )


def serialize(loss_scale: loss_scale_lib.LossScale | None) -> dict[str, Any] | None:
    """Return the config of a loss scale, a dict, or None for None."""
    if loss_scale is None:
        return None
    return {
        "class_name": type(loss_scale).__name__,
        "config": loss_scale.get_config(),
    }


def deserialize(
    config: dict[str, Any], custom_objects: dict[str, Any] | None = None
) -> loss_scale_lib.LossScale:
    """Return the loss scale of a config that `serialize` returned.

    Args:
      config: dict, which is not changed.
      custom_objects: dict of names and further `LossScale` classes.

    Raises:
      ValueError: if it names no known class, or is no config.
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
