"""What each supported TensorFlow has of the old names, as seen in 2.12-2.21.

`tf-lso check --target` asks for one of them. All others that read programs ask what
today's have in common.
"""

import dataclasses
import functools

from tf_lso.names import today
from tf_lso.names.namespaces import PRIVATE


@dataclasses.dataclass(frozen=True, eq=False)
class Target:
    """The TensorFlow that a program is to run on.

    Attributes:
      version: its minor version, for people.
      tensorflow: its versions. A test of the version counts if it comes out the same for
        all of them.
      keras: the same for `tf.keras`.
      modules: full module name as imported -> the old names that it has. Modules that
        are not listed do not exist.
      packages: packages that exist without an old module in them.
      by_attribute: what can be reached as an attribute, but not be imported.
      keras_2: whether `tf.keras` is Keras 2.
    """

    version: str
    tensorflow: tuple[str, ...]
    keras: tuple[str, ...]
    modules: dict[str, tuple[str, ...]]
    packages: tuple[str, ...] = ()
    by_attribute: tuple[str, ...] = ()
    keras_2: bool = False

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


def prefixes(path: str) -> set[str]:
    """Return the dotted paths above a path."""
    parts = path.split(".")
    return {".".join(parts[:end]) for end in range(1, len(parts))}


_KERAS_3 = tuple(f"3.{minor}.0" for minor in range(16))
_SINCE_2_16 = tuple(f"2.{minor}.0" for minor in range(16, 22))

# What is the same in all versions with Keras 3.
TODAY = Target(
    "2.16 and later",
    _SINCE_2_16,
    _KERAS_3,
    today.MODULES_TODAY,
    today.PACKAGES_TODAY,
    today.BY_ATTRIBUTE_TODAY,
)

# The names of `keras.mixed_precision` that 2.12-2.15 have.
_STABLE = ("LossScaleOptimizer", "Policy", "global_policy", "set_global_policy")
_COMMON = ("keras.", "tensorflow.keras.", *(f"{k}." for k in today.BY_ATTRIBUTE_TODAY))


def _modules_of_keras_2(private: str) -> dict[str, tuple[str, ...]]:
    """Return what 2.12-2.15 have, with the package that has Keras's own modules."""
    stable = (
        "keras",
        private,
        "tensorflow.keras",
        "tensorflow.compat.v2.keras",
        "keras.api._v2.keras",
    )
    return {
        # TensorFlow's other modules, and tf_keras, have what they have today.
        **{m: n for m, n in today.MODULES_TODAY.items() if not m.startswith(_COMMON)},
        **{f"{keras}.mixed_precision": _STABLE for keras in stable},
        "tensorflow.compat.v1.keras.mixed_precision": _STABLE[:1],
        "keras.api._v1.keras.mixed_precision": _STABLE[:1],
        f"{private}.mixed_precision.loss_scale_optimizer": (
            "LossScaleOptimizer",
            "LossScaleOptimizerV3",
            "BaseLossScaleOptimizer",
        ),
        f"{private}.mixed_precision.policy": _STABLE[1:],
        f"{private}.mixed_precision.device_compatibility_check": tuple(
            PRIVATE["keras.mixed_precision.device_compatibility_check"]
        ),
    }


def _of_keras_2(minor: int) -> Target:
    version = f"2.{minor}"
    modules = _modules_of_keras_2("keras" if minor < 13 else "keras.src")
    versions = (f"{version}.0",)
    return Target(version, versions, versions, modules, keras_2=True)


# Minor version -> what TensorFlow of that version has.
TARGETS = {
    **{f"2.{minor}": _of_keras_2(minor) for minor in range(12, 16)},
    **{
        minor: dataclasses.replace(TODAY, version=minor, tensorflow=(full,))
        for full in _SINCE_2_16
        for minor in [full.removesuffix(".0")]
    },
}
NEWEST = TARGETS[list(TARGETS)[-1]]

# Names of Keras 3 -> the old names, which have the same in all versions.
OLDER = {
    "DTypePolicy": "Policy",
    "dtype_policy": "global_policy",
    "set_dtype_policy": "set_global_policy",
}
