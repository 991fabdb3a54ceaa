"""Decides what becomes of an old dotted path: the new one, or why it stays."""

import dataclasses
from typing import NamedTuple

from tf_lso import names
from tf_lso.names.today import BY_ATTRIBUTE_TODAY, SHARED
from tf_lso.source import lookup
from tf_lso.source import reasons as left

TF_LSO, KERAS = "tf_lso", "keras"

# Policies that have the same name in the stable API and in today's Keras.
_KERAS_HAS = ("Policy", "global_policy", "set_global_policy")


@dataclasses.dataclass(frozen=True)
class Options:
    """What the command line asks for.

    Attributes:
      prefer: TF_LSO, or KERAS for the policies that today's Keras still has.
      tf_keras: whether to move the optimizers of tf_keras too.
      install: whether `tf_lso.install()` may be added to files that need it.
    """

    prefer: str = TF_LSO
    tf_keras: bool = False
    install: bool = True


@dataclasses.dataclass(frozen=True)
class Settings:
    """What decides the paths of one file."""

    options: Options
    keras3: bool = False  # whether the file is written for Keras 3
    legacy_keras: bool = False  # whether the file speaks of TF_USE_LEGACY_KERAS


class New(NamedTuple):
    """A new module: what stands for the first `parts` parts of the old path."""

    module: str
    parts: int
    symbol: str  # what the whole path means: the same for all spellings of one object

    @property
    def is_module(self) -> bool:
        """Whether the whole path is the module itself."""
        return self.symbol.endswith(".")

    def owner(self, parts: int) -> str:
        """Return what stands for the first `parts` parts, if they end alike."""
        return ".".join(self.module.split(".")[: parts - self.parts or None])


class Stays(NamedTuple):
    """An old path that is left as it is."""

    reason: left.Reason
    name: str
    instead: str = ""


Decision = New | Stays | None


def decide(path: str, settings: Settings, imported: bool = False) -> Decision:
    """Return what becomes of a dotted path, aliases resolved.

    None stands for what is no old name, or needs no mention. `imported` says whether a
    `from … import …` imports it.
    """
    parts = path.split(".")
    for end in range(len(parts), 1, -1):
        module = ".".join(parts[:end])
        if module in lookup.MODULES:
            name = parts[end] if end < len(parts) else ""
            return _decide(module, end, name, settings, imported)
    return None


def _decide(
    module: str, end: int, name: str, settings: Settings, imported: bool
) -> Decision:
    path = f"{module}.{name}" if name else module
    namespace = lookup.MODULES[module]
    verdict = lookup.of_path(path)
    if namespace == "contrib.mixed_precision":
        return Stays(left.CONTRIB, path, verdict.current if verdict else "")
    symbol = lookup.symbol(path)
    if not name or name.startswith("__"):
        symbol = f"{namespace.removeprefix('compat.v2.')}."
    new = New(f"tf_lso.{namespace}", end, symbol)
    gone = name.startswith("__") and not lookup.is_there(module)
    if not name or name == "__dict__" or gone:
        return _module(module, new, settings)
    if name.startswith("__"):
        return None
    if not symbol:
        return Stays(left.STRANGER, path) if verdict else None
    if verdict is None and name not in _KERAS_HAS:
        return None  # a name of today's API only; compat.v1's policies are too
    if settings.keras3 and lookup.is_own(path):
        return Stays(left.KERAS_3, path, f"{new.module}.{name}")
    if settings.options.prefer == KERAS and symbol in _KERAS_HAS:
        by_attribute = imported and module.startswith(BY_ATTRIBUTE_TODAY)
        if lookup.is_own(path) and not by_attribute:
            sets = symbol == "set_global_policy"
            return Stays(left.KEPT_POLICY, path) if sets else None
        if imported and not lookup.in_tf_keras(path):
            root = "keras" if module.startswith("keras") else "tensorflow.keras"
            return New(f"{root}.mixed_precision", end, symbol)
    if lookup.in_tf_keras(path):
        if symbol in names.POLICIES or not settings.options.tf_keras:
            return Stays(left.TF_KERAS, path)
    elif _other_policies(module, settings) and symbol in names.POLICIES:
        return Stays(left.LEGACY_KERAS, path)
    return new


def _module(module: str, new: New, settings: Settings) -> Decision:
    """Decide about a module itself, which is imported or passed on."""
    if lookup.is_there(module):
        if settings.keras3 and lookup.is_own(f"{module}.Policy"):
            return Stays(left.KERAS_3, module, new.module)
        return None if stays(module, settings) else new
    if lookup.in_tf_keras(module) or _other_policies(module, settings):
        return Stays(left.LEGACY_KERAS, module)
    return new


def stays(module: str, settings: Settings) -> bool:
    """Whether a module of today stays, and only uses of its names move."""
    namespace = lookup.MODULES[module]
    return (
        namespace.removeprefix("compat.v2.") in SHARED
        or lookup.in_tf_keras(module)
        or _other_policies(module, settings)
        or (settings.options.prefer == KERAS and lookup.is_own(f"{module}.Policy"))
    )


def _other_policies(module: str, settings: Settings) -> bool:
    """Whether the policies there may belong to another Keras than `tf.keras`."""
    return settings.legacy_keras and module.split(".")[0] == "keras"
