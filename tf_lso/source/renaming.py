"""Decides what becomes of an old dotted path: the new one, or why it stays."""

import ast
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from tf_lso import names
from tf_lso.names.targets import TARGETS
from tf_lso.names.today import BY_ATTRIBUTE_TODAY, SHARED
from tf_lso.source import lookup
from tf_lso.source import reasons as left
from tf_lso.source.inference import Inference, Stop, Value
from tf_lso.source.lookup import WORKS
from tf_lso.source.scopes import CLASS, Site
from tf_lso.source.syntax import chain_of, imported_paths, literal

LEAST, TF_LSO, KERAS = "least", "tf_lso", "keras"

# Policies that have the same name in the stable API and in today's Keras.
_KERAS_HAS = ("Policy", "global_policy", "set_global_policy")


@dataclasses.dataclass(frozen=True)
class Options:
    """What the command line asks for.

    Attributes:
      prefer: LEAST, which leaves the names that work in all versions; TF_LSO, to which all
        move; or KERAS for all policies that today's Keras still has.
      tf_keras: whether to move the optimizers of tf_keras too.
      install: whether `tf_lso.install()` may be added to files that need it.
      like: the TensorFlow whose Keras the program gets, such as "2.4", or None.
      select: the rules that count, or none for all.
      ignore: the rules that do not count.
    """

    prefer: str = LEAST
    tf_keras: bool = False
    install: bool = True
    like: str | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def wants(self, rule: str) -> bool:
        """Whether a rule counts."""
        chosen = not self.select or rule.startswith(self.select)
        return chosen and not (self.ignore and rule.startswith(self.ignore))


@dataclasses.dataclass(frozen=True)
class Settings:
    """What decides the paths of one file."""

    options: Options
    keras3: bool = False  # whether the file is written for Keras 3
    legacy_keras: bool = False  # whether the file speaks of TF_USE_LEGACY_KERAS
    float16: bool = False  # whether the file speaks of mixed_float16


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


# Names that are the same in TensorFlow 2.12-2.15 and today.
_LASTING = ("Policy", "global_policy")


@functools.cache
def works_everywhere(path: str, how: str = lookup.ACCESS) -> bool:
    """Whether a name or module works as it did in every version that tf_lso supports."""
    if lookup.is_name(path) and lookup.symbol(path) not in _LASTING:
        return False
    verdicts = [lookup.of_path(path, how, target) for target in TARGETS.values()]
    return lookup.is_there(path) and all(v and v.status == WORKS for v in verdicts)


class Renaming:
    """What becomes of the old names of one program, and which of them stay.

    With LEAST, a name that works in all versions stays, and so does a module of which
    only such names are used. A statement that imports one name that moves moves whole.
    """

    def __init__(
        self,
        inference: Inference,
        settings: Settings,
        silenced: Callable[[Site, Any], bool] = lambda site, node: False,
    ) -> None:
        self.inference = inference
        self.settings = settings
        self._silenced = silenced
        self._kept: set[tuple[int, str]] = set()
        # (place, path) of a module's import or chain -> whether each of its uses moves.
        self._users: dict[tuple[int, str], list[bool]] = {}
        for site in inference.program.sites:
            if isinstance(site.node, ast.Attribute):
                self._chain(site)
            elif isinstance(site.node, ast.Call) and len(site.node.args) > 1:
                self._asked(site)
        for site in inference.program.sites:
            if isinstance(site.node, (ast.Import, ast.ImportFrom)):
                self._import(site)
            elif isinstance(site.node, ast.Attribute):
                self._module(site)

    def decide(self, path: str, imported: bool = False) -> Decision:
        """Return what becomes of a dotted path, wherever it stands."""
        return decide(path, self.settings, imported)

    def at(
        self, node: Any, path: str, imported: bool = False, call: ast.Call | None = None
    ) -> Decision:
        """Return what becomes of a path at a node, which may stay there."""
        way = self.decide(path, imported)
        if not isinstance(way, New):
            return way
        if (id(node), path) in self._kept:
            return None
        is_use = not imported and path not in lookup.MODULES
        return None if is_use and self._lasts(path, call) else way

    def moved(self, value: Value) -> bool:
        """Whether a value is tf_lso's own once the file is migrated."""
        return any(map(self._moves, value.stops))

    def _moves(self, stop: Stop) -> bool:
        return (id(stop.node), stop.path) not in self._kept and isinstance(
            self.decide(stop.path, stop.imports is not None), New
        )

    def _lasts(self, path: str, call: ast.Call | None = None) -> bool:
        """Whether a name needs no move for itself."""
        if self.settings.options.prefer != LEAST:
            return False
        if lookup.symbol(path) == "set_global_policy" and call and call.args:
            policy = literal(call.args[0])
            other = policy is not None and policy != "mixed_float16"
            return other and not self.settings.float16 and lookup.is_own(path)
        return works_everywhere(path)

    # --- Which names and modules stay.

    def _chain(self, site: Site) -> None:
        chain = chain_of(site.node)
        steps = ".".join(part.attr for part in chain)
        call = self.inference.program.calls.get(id(site.node))
        self._use(chain[0].value, site, steps, call)

    def _asked(self, site: Site) -> None:
        name = literal(site.node.args[1])
        if name is not None and "attr" in ast.dump(site.node.func):
            self._use(site.node.args[0], site, name, None)

    def _use(
        self, owner: ast.AST, site: Site, steps: str, call: ast.Call | None
    ) -> None:
        for value in self.inference.of(owner, site.scope).certain:
            path = f"{value.path}.{steps}"
            moves = isinstance(self.decide(path), New) and not self._lasts(path, call)
            for stop in value.stops:
                self._users.setdefault((id(stop.node), stop.path), []).append(moves)

    def _module(self, site: Site) -> None:
        """Keep a chain that leads to a module, if no use of the module moves."""
        for path in self.inference.paths(site.node, site.scope):
            key = id(site.node), path
            users = self._users.get(key, [])
            if self._silenced(site, site.node):
                self._kept.add(key)
            elif path in lookup.MODULES and self._lasts(path):
                if _all_stay(users, site):
                    self._kept.add(key)

    def _import(self, site: Site) -> None:
        node = site.node
        how = lookup.IMPORT if isinstance(node, ast.Import) else lookup.FROM
        keys, moving = [], set()
        for alias, path in zip(node.names, imported_paths(node)):
            way = self.decide(path, how == lookup.FROM)
            if not isinstance(way, New):
                continue
            users = self._users.get((id(node), path), [])
            lasts = self._lasts(path) and works_everywhere(path, how)
            if path in lookup.MODULES:
                lasts = lasts and _all_stay(users, site)
            if self._silenced(site, alias):
                self._kept.add((id(node), path))
            elif lasts:
                keys.append((path, way))
            else:
                moving.add(way.module)
        for path, way in keys:
            if way.module not in moving:
                self._kept.add((id(node), path))


def _all_stay(users: list[bool], site: Site) -> bool:
    """Whether a module is used, and by names that stay only. `self.mp` is not seen."""
    return bool(users) and not any(users) and site.scope.kind != CLASS
