"""What each supported TensorFlow has of the old names, as seen in 2.12-2.21.

`tf-lso check --target` asks for one of them. All others that read programs ask what
today's have in common.
"""

import dataclasses
import functools
import re

from tf_lso.environment import PAIRS
from tf_lso.names import keras3_names


@dataclasses.dataclass(frozen=True, eq=False)
class Target:
    """The TensorFlow that a program is to run on."""

    version: str  # minor, for people
    # The versions of it and of `tf.keras`. A test of the version counts if it comes out the
    # same for all of them.
    tensorflow: tuple[str, ...]
    keras: tuple[str, ...]
    # Full module name as imported -> the old names that it has; others do not exist.
    modules: dict[str, tuple[str, ...]]
    packages: tuple[str, ...] = ()  # those that exist without an old module in them
    by_attribute: tuple[str, ...] = ()  # attributes that cannot be imported
    keras_2: bool = False  # whether `tf.keras` is Keras 2
    like: str | None = None  # the earlier TensorFlow whose Keras the program is given
    keras_3: bool = False  # whether `keras` is Keras 3, where `tf.keras` is not

    def has_keras_2(self, path: str) -> bool:
        """Whether the Keras that a path leads through is Keras 2."""
        return self.keras_2 and not (self.keras_3 and path.startswith("keras."))

    @property
    def legacy_optimizers(self) -> bool:
        """Whether `tf.keras.optimizers` has the classes of TensorFlow 2.0-2.10."""
        return self.like is not None and (minor(self.like) or (2, 0)) < (2, 11)

    @functools.cached_property
    def prefixes(self) -> frozenset[str]:
        """The packages that exist, and those above its modules."""
        return frozenset(self.packages).union(*map(prefixes, self.modules))

    @property
    def library(self) -> str:
        """The subject of a sentence on what it lacks, with its verb."""
        if self.keras_2:
            return f"TensorFlow {self.version} has"
        return f"TensorFlow {TODAY.version} have"


def minor(version: str) -> tuple[int, int] | None:
    """Return the major and minor version of `2.4` or `2.4.1`, or None."""
    found = re.match(r"([0-9]+)\.([0-9]+)(\.|$)", version)
    return (int(found[1]), int(found[2])) if found else None


def prefixes(path: str) -> set[str]:
    """Return the dotted paths above a path."""
    parts = path.split(".")
    return {".".join(parts[:end]) for end in range(1, len(parts))}


# Minor version of TensorFlow -> whether `tf.keras` is Keras 2.
_HAS_KERAS_2 = {
    f"{major}.{minor}": pair["keras"][0] < (3, 0)
    for (major, minor), pair in PAIRS.items()
}
# What is the same in all versions with Keras 3.
TODAY = Target(
    "2.16 and later",
    tuple(f"{version}.0" for version, keras_2 in _HAS_KERAS_2.items() if not keras_2),
    tuple(f"3.{minor}.0" for minor in range(16)),
    keras3_names.MODULES_TODAY,
    ("keras.src",),
    keras3_names.BY_ATTRIBUTE_TODAY,
)
# The Keras of TensorFlow, by all its names.
_TF = ("tensorflow.keras.", *(f"{keras}." for keras in TODAY.by_attribute))


def _target(version: str, keras_2: bool) -> Target:
    """Return a target; the `keras` of 2.12-2.15 has what tf_keras has today."""
    versions = (f"{version}.0",)
    if not keras_2:
        return dataclasses.replace(TODAY, version=version, tensorflow=versions)
    private = "keras" if version == "2.12" else "keras.src"  # Keras's own modules
    modules = {
        m: n for m, n in TODAY.modules.items() if not m.startswith(("keras.", *_TF))
    }
    for module, names in TODAY.modules.items():
        if module.startswith("tf_keras."):
            modules[module.removeprefix("tf_").replace("keras.src", private)] = names
    stable = modules["keras.mixed_precision"]
    modules |= {f"{keras}mixed_precision": stable for keras in _TF}
    modules["tensorflow.compat.v1.keras.mixed_precision"] = stable[:1]
    return Target(version, versions, versions, modules, keras_2=True)


# Minor version -> what TensorFlow of that version has.
TARGETS = {v: _target(v, keras_2) for v, keras_2 in _HAS_KERAS_2.items()}
NEWEST = TARGETS[list(TARGETS)[-1]]


def like(version: str, target: Target) -> Target:
    """Return a target where `tf.keras` is the Keras that an earlier TensorFlow had."""
    if (minor(version) or (2, 0)) >= (2, 16):
        return dataclasses.replace(target, like=version)
    modules, keras_3 = target.modules, not target.keras_2
    if keras_3:
        of_2 = {m: n for m, n in TARGETS["2.15"].modules.items() if m.startswith(_TF)}
        of_3 = {m: n for m, n in modules.items() if not m.startswith(_TF)}
        modules = {**of_3, **of_2}
    return dataclasses.replace(
        target,
        version=f"{target.version}, like {version}",
        modules=modules,
        by_attribute=(),
        keras_2=True,
        like=version,
        keras_3=keras_3,
    )


# Names of Keras 3 -> the old names, which have the same in all versions.
OLDER = {
    "DTypePolicy": "Policy",
    "dtype_policy": "global_policy",
    "set_dtype_policy": "set_global_policy",
}
