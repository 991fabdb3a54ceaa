"""List the old names of classes and functions, such as `tf.train.experimental.LossScale`."""

import dataclasses
from collections.abc import Iterable

from tf_lso.names.symbols import CHANGED, MISSING, SAME


@dataclasses.dataclass(frozen=True)
class Use:
    """What tf_lso knows about one old name, such as `tf.train.experimental.LossScale`."""

    # The key in `symbols.SYMBOLS` of the class or function that had this name.
    symbol: str
    # For example "2.0-2.8".
    versions: str
    today: str = MISSING


_LOSS_SCALES = ("LossScale", "FixedLossScale", "DynamicLossScale")
_REWRITES = (
    "enable_mixed_precision_graph_rewrite",
    "disable_mixed_precision_graph_rewrite",
)


def _each(
    symbols: Iterable[str], versions: str, today: str = MISSING
) -> dict[str, Use]:
    return {symbol: Use(symbol, versions, today) for symbol in symbols}


_STABLE = {
    "LossScaleOptimizer": Use("LossScaleOptimizer", "2.4-2.15", CHANGED),
    "Policy": Use("Policy", "2.4-2.15", SAME),
    "global_policy": Use("global_policy", "2.4-2.15", SAME),
    "set_global_policy": Use("set_global_policy", "2.4-2.15", CHANGED),
    **_each(("DTypePolicy", "dtype_policy", "set_dtype_policy"), "2.16-", SAME),
}
_EXPERIMENTAL = {
    "LossScaleOptimizer": Use("experimental.LossScaleOptimizer", "2.0-2.8"),
    "Policy": Use("experimental.Policy", "2.0-2.8"),
    "get_layer_policy": Use("get_layer_policy", "2.2-2.8"),
    "global_policy": Use("experimental.global_policy", "2.0-2.8"),
    "set_policy": Use("set_policy", "2.0-2.8"),
}
_V1 = {
    **_each((*_LOSS_SCALES, "MixedPrecisionLossScaleOptimizer"), "2.4-2.21", SAME),
    **_each(_REWRITES[:1], "2.4-2.21", CHANGED),
    **_each(_REWRITES[1:], "2.4-2.21", SAME),
}
_V2 = {
    "keras.mixed_precision": _STABLE,
    "keras.mixed_precision.experimental": _EXPERIMENTAL,
    "mixed_precision.experimental": _each(_LOSS_SCALES, "2.1-2.8"),
    "train.experimental": {
        **_each(_LOSS_SCALES, "2.0-2.8"),
        **_each(_REWRITES, "2.0-2.5"),
    },
}

# Maps each old public namespace, without `tf.`, to what tf_lso knows about its names.
NAMESPACES = {
    **_V2,
    # In TensorFlow 2.4-2.15, `tf.compat.v1.keras.mixed_precision` had no dtype policies, unlike
    # `tf.keras.mixed_precision`.
    "compat.v1.keras.mixed_precision": {
        **_STABLE,
        **_each(("Policy", "global_policy", "set_global_policy"), "2.16-", SAME),
    },
    "compat.v1.keras.mixed_precision.experimental": {
        **_EXPERIMENTAL,
        "Policy": Use("experimental.Policy", "2.0-2.2"),
        "get_layer_policy": Use("get_layer_policy", "2.2"),
        "global_policy": Use("experimental.global_policy", "2.0-2.2"),
        "set_policy": Use("set_policy", "2.0-2.2"),
    },
    "compat.v1.mixed_precision": _V1,
    "compat.v1.mixed_precision.experimental": _each(_LOSS_SCALES, "2.1-2.21", SAME),
    "compat.v1.train.experimental": {
        name: dataclasses.replace(use, versions="2.0-2.21") for name, use in _V1.items()
    },
    **{f"compat.v2.{namespace}": names for namespace, names in _V2.items()},
}

_DEVICE = ("log_device_compatibility_check",)
# The same for private modules, from which some old programs import. tf_lso has a module for
# each of them.
PRIVATE = {
    "keras.mixed_precision.loss_scale_optimizer": {
        "LossScaleOptimizer": Use("LossScaleOptimizer", "2.4-2.15"),
        **_each(("LossScaleOptimizerV3", "BaseLossScaleOptimizer"), "2.9-2.15"),
        "LossScaleOptimizerV1": Use("LossScaleOptimizerV1", "2.4-2.8"),
    },
    "keras.mixed_precision.policy": {
        "Policy": Use("Policy", "2.4-2.15"),
        "PolicyV1": Use("PolicyV1", "2.4-2.8"),
        **_each(("global_policy", "set_global_policy"), "2.4-2.15"),
        "set_policy": Use("set_policy", "2.0-2.8"),
    },
    "keras.mixed_precision.device_compatibility_check": _each(_DEVICE, "2.2-2.15"),
    "keras.mixed_precision.experimental.loss_scale_optimizer": {
        "LossScaleOptimizer": Use("experimental.LossScaleOptimizer", "2.0-2.3"),
    },
    "keras.mixed_precision.experimental.policy": {
        name: _EXPERIMENTAL[name] for name in ("Policy", "global_policy", "set_policy")
    },
    "keras.mixed_precision.experimental.device_compatibility_check": _each(
        _DEVICE, "2.2-2.3"
    ),
    "train.experimental.loss_scale": _each((*_LOSS_SCALES, "get"), "2.0-2.8"),
    "train.experimental.loss_scale_optimizer": _each(
        ("MixedPrecisionLossScaleOptimizer",), "2.0-2.21", SAME
    ),
    "train.experimental.mixed_precision": {
        **_each(_REWRITES, "2.0-2.5"),
        f"{_REWRITES[0]}_v1": Use(_REWRITES[0], "2.0-2.21", CHANGED),
        f"{_REWRITES[1]}_v1": Use(_REWRITES[1], "2.0-2.21", SAME),
    },
}


def mirror_names(namespace: str) -> dict[str, Use]:
    """Return {name: use} for a namespace without "tf.", such as "keras.mixed_precision"."""
    return {**NAMESPACES, **PRIVATE}.get(namespace, {})
