"""List the old names that exist on today's TensorFlow, or under `tf-lso run --like VERSION`."""

import dataclasses
import functools
import re

from tf_lso.names import keras3_names

NEWEST = "2.21"  # the newest version that `--like` accepts


@dataclasses.dataclass(frozen=True, eq=False)
class Target:
    """The TensorFlow on which a program will run.

    Attributes:
      modules: dict that maps the full name of each existing old module to the old names in
        it. Old modules that are not listed do not exist.
      by_attribute: packages that exist as attributes, but cannot be imported.
      like: the version that is passed to `tf-lso run --like`, or "" without this option.
    """

    modules: dict[str, tuple[str, ...]]
    by_attribute: tuple[str, ...] = ()
    like: str = ""

    @property
    def keras_2(self) -> bool:
        """Whether `tf.keras` is Keras 2."""
        return bool(self.like)

    @property
    def legacy_optimizers(self) -> bool:
        """Whether `tf.keras.optimizers` has the classes of TensorFlow 2.0-2.10."""
        return bool(self.like) and (minor(self.like) or (2, 0)) < (2, 11)

    @functools.cached_property
    def prefixes(self) -> frozenset[str]:
        """The parent packages of all `modules`, such as `tensorflow.keras`."""
        return frozenset({"keras.src"}).union(*map(prefixes, self.modules))


def minor(version: str) -> tuple[int, int] | None:
    """Return (2, 4) for "2.4" or "2.4.1". Return None for a text that is not a version."""
    found = re.match(r"([0-9]+)\.([0-9]+)(\.|$)", version)
    return (int(found[1]), int(found[2])) if found else None


def prefixes(path: str) -> set[str]:
    """Return the parent packages of a dotted path, such as {"a", "a.b"} for "a.b.c"."""
    parts = path.split(".")
    return {".".join(parts[:end]) for end in range(1, len(parts))}


# The `Target` for all TensorFlow versions that have Keras 3.
TODAY = Target(keras3_names.MODULES_TODAY, keras3_names.BY_ATTRIBUTE_TODAY)

_STABLE = ("LossScaleOptimizer", "Policy", "global_policy", "set_global_policy")
# Maps the names of TensorFlow's Keras modules to the old names that these modules have if
# `tf.keras` is Keras 2.
_TF_KERAS_2 = {
    "tensorflow.keras.mixed_precision": _STABLE,
    "tensorflow.compat.v1.keras.mixed_precision": _STABLE[:1],
    "tensorflow.compat.v2.keras.mixed_precision": _STABLE,
}


def like(version: str) -> Target:
    """Return the `Target` for programs that are run with `tf-lso run --like VERSION`."""
    if (minor(version) or (2, 0)) >= (2, 16):
        return TODAY
    return Target({**TODAY.modules, **_TF_KERAS_2}, (), version)
