"""Describe which old names exist on the TensorFlow that runs a program."""

import dataclasses
import re

from tf_lso.names import keras3_names


@dataclasses.dataclass(frozen=True, eq=False)
class Runtime:
    """The old names that exist on one TensorFlow.

    `modules` maps each old module that exists to the old names in the module. `like` is the
    version that is passed to `tf-lso run --like`, or "" without this option.
    """

    modules: dict[str, tuple[str, ...]]
    by_attribute: tuple[str, ...] = ()
    like: str = ""

    @property
    def keras_2(self) -> bool:
        return bool(self.like)

    @property
    def legacy_optimizers(self) -> bool:
        """Whether `tf.keras.optimizers` has the classes of TensorFlow 2.0-2.10."""
        return bool(self.like) and (minor(self.like) or (2, 0)) < (2, 11)


def minor(version: str) -> tuple[int, int] | None:
    """Return (2, 4) for "2.4" or "2.4.1". Return None for a text that is not a version."""
    found = re.match(r"([0-9]+)\.([0-9]+)(\.|$)", version)
    return (int(found[1]), int(found[2])) if found else None


TODAY = Runtime(keras3_names.MODULES_TODAY, keras3_names.BY_ATTRIBUTE_TODAY)

_STABLE = ("LossScaleOptimizer", "Policy", "global_policy", "set_global_policy")
# The old names in Keras's modules under `tf-lso run --like`, where both `keras` and `tf.keras`
# are Keras 2.
_TF_KERAS_2 = {
    "keras.mixed_precision": _STABLE,
    "tensorflow.keras.mixed_precision": _STABLE,
    "tensorflow.compat.v1.keras.mixed_precision": _STABLE[:1],
    "tensorflow.compat.v2.keras.mixed_precision": _STABLE,
}


def like(version: str) -> Runtime:
    """Return the old names that exist under `tf-lso run --like VERSION`."""
    if (minor(version) or (2, 0)) >= (2, 16):
        return TODAY
    return Runtime({**TODAY.modules, **_TF_KERAS_2}, (), version)
