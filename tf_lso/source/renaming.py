"""Decides what becomes of an old dotted path: the new one, or why it stays."""

import ast
import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

from tf_lso import names
from tf_lso.names.keras3_names import BY_ATTRIBUTE_TODAY, KERAS_COPY, SHARED
from tf_lso.names.targets import TARGETS
from tf_lso.source import lookup
from tf_lso.source import reasons as left
from tf_lso.source.inference import Inference, Stop, Value
from tf_lso.source.lookup import WORKS
from tf_lso.source.scopes import CLASS, Place, Site
from tf_lso.source.syntax import chain_of, imported_paths, literal

LEAST, TF_LSO, KERAS = "least", "tf_lso", "keras"

# Policies that have the same name in the stable API and in today's Keras.
_KERAS_HAS = ("Policy", "global_policy", "set_global_policy")
# Names that are the same in TensorFlow 2.12-2.15 and today.
_LASTING = ("Policy", "global_policy")
_LEGACY_KERAS, _FLOAT16 = "TF_USE_LEGACY_KERAS", "mixed_float16"


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


# None stands for what is no old name, or needs no mention.
Decision = New | Stays | None


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

    Args:
      inference: what the program's expressions stand for.
      options: the `Options`.
      text: the text of the whole program.
      keras3: whether the program is written for Keras 3.
      silenced: the places that a comment silences.
    """

    def __init__(
        self,
        inference: Inference,
        options: Options,
        text: str,
        keras3: bool,
        silenced: set[Place],
    ) -> None:
        self.inference = inference
        self.keras3 = keras3
        self._options = options
        self._legacy_keras, self._float16 = _LEGACY_KERAS in text, _FLOAT16 in text
        self._silenced = silenced
        self._kept: set[tuple[int, str]] = set()
        # (place, path) of a module's import or chain -> whether each of its uses moves.
        self._users: dict[tuple[int, str], list[bool]] = {}
        for site in inference.program.sites:
            for owner, steps, call in self._accesses(site):
                for value in inference.of(owner, site.scope).certain:
                    path = f"{value.path}.{steps}"
                    way = self.decide(path)
                    moves = isinstance(way, New) and not self._lasts(path, call)
                    for stop in value.stops:
                        key = id(stop.node), stop.path
                        self._users.setdefault(key, []).append(moves)
        for site in inference.program.sites:
            if isinstance(site.node, (ast.Import, ast.ImportFrom)):
                self._keep_import(site)
            elif isinstance(site.node, ast.Attribute):
                self._keep_module(site)

    # --- A path by itself.

    def decide(self, path: str, imported: bool = False) -> Decision:
        """Return what becomes of a dotted path, aliases resolved, wherever it stands.

        `imported` says whether a `from … import …` imports it.
        """
        module, name = lookup.split(path)
        if not module:
            return None
        path = f"{module}.{name}" if name else module
        namespace = lookup.MODULES[module]
        verdict = lookup.of_path(path)
        if namespace == "contrib.mixed_precision":
            return Stays(left.CONTRIB, path, verdict.current if verdict else "")
        new = New(f"tf_lso.{namespace}", module.count(".") + 1, lookup.symbol(path))
        special = name.startswith("__")
        if not name or name == "__dict__" or (special and not lookup.is_there(module)):
            shared = f"{namespace.removeprefix('compat.v2.')}."
            return self._module(module, new._replace(symbol=shared))
        if special or self._is_of_copy(module):
            return None
        if not new.symbol:
            return Stays(left.STRANGER, path) if verdict else None
        if verdict is None and name not in _KERAS_HAS:
            return None  # a name of today's API only; compat.v1's policies are too
        if self.keras3 and lookup.is_own(path):
            return Stays(left.KERAS_3, path, f"{new.module}.{name}")
        if self._options.prefer == KERAS and new.symbol in _KERAS_HAS:
            by_attribute = imported and module.startswith(BY_ATTRIBUTE_TODAY)
            if lookup.is_own(path) and not by_attribute:
                sets = new.symbol == "set_global_policy"
                return Stays(left.KEPT_POLICY, path) if sets else None
            if imported and not lookup.in_tf_keras(path):
                root = "keras" if module.startswith("keras") else "tensorflow.keras"
                return new._replace(module=f"{root}.mixed_precision")
        if lookup.in_tf_keras(path):
            if new.symbol in names.POLICIES or not self._options.tf_keras:
                return Stays(left.TF_KERAS, path)
        elif self._has_other_policies(module) and new.symbol in names.POLICIES:
            return Stays(left.LEGACY_KERAS, path)
        return new

    def _module(self, module: str, new: New) -> Decision:
        """Decide about a module itself, which is imported or passed on."""
        other = lookup.in_tf_keras(module) or self._has_other_policies(module)
        if not lookup.is_there(module):
            return Stays(left.LEGACY_KERAS, module) if other else new
        own = lookup.is_own(f"{module}.Policy")
        if self.keras3 and own:
            return Stays(left.KERAS_3, module, new.module)
        # It stays, and only uses of its names move.
        shared = new.symbol.removesuffix(".") in SHARED
        keeps = shared or other or (self._options.prefer == KERAS and own)
        return None if keeps or self._is_of_copy(module) else new

    def _is_of_copy(self, module: str) -> bool:
        """Whether all of Keras is TensorFlow's own copy, which fits itself."""
        return module.startswith(KERAS_COPY) and self.inference.copy_only

    def _has_other_policies(self, module: str) -> bool:
        """Whether the policies there may belong to another Keras than `tf.keras`."""
        return self._legacy_keras and module.split(".")[0] == "keras"

    def _lasts(self, path: str, call: ast.Call | None = None) -> bool:
        """Whether a name needs no move for itself."""
        if self._options.prefer != LEAST:
            return False
        if lookup.symbol(path) == "set_global_policy" and call and call.args:
            policy = literal(call.args[0])
            other = policy is not None and policy != _FLOAT16
            return other and not self._float16 and lookup.is_own(path)
        return works_everywhere(path)

    # --- A path at its place.

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

    # --- Which names and modules stay.

    def _accesses(self, site: Site) -> Iterator[tuple[ast.AST, str, ast.Call | None]]:
        """Yield (owner, what is taken of it, the call of that) at a site."""
        node = site.node
        if isinstance(node, ast.Attribute):
            chain = chain_of(node)
            steps = ".".join(part.attr for part in chain)
            yield chain[0].value, steps, self.inference.program.calls.get(id(node))
        elif isinstance(node, ast.Call) and len(node.args) > 1:
            name = literal(node.args[1])
            if name is not None and "attr" in ast.dump(node.func):
                yield node.args[0], name, None

    def _keep_module(self, site: Site) -> None:
        """Keep a chain that leads to a module, if no use of the module moves."""
        for path in self.inference.paths(site.node, site.scope):
            key = id(site.node), path
            last = path in lookup.MODULES and self._lasts(path)
            if site.place in self._silenced or (last and self._all_stay(key, site)):
                self._kept.add(key)

    def _keep_import(self, site: Site) -> None:
        node = site.node
        how = lookup.IMPORT if isinstance(node, ast.Import) else lookup.FROM
        lasting, moving = [], set()
        for alias, path in zip(node.names, imported_paths(node)):
            way, key = self.decide(path, how == lookup.FROM), (id(node), path)
            if not isinstance(way, New):
                continue
            lasts = self._lasts(path) and works_everywhere(path, how)
            if path in lookup.MODULES:
                lasts = lasts and self._all_stay(key, site)
            if site.at(alias) in self._silenced:
                self._kept.add(key)
            elif lasts:
                lasting.append((key, way.module))
            else:
                moving.add(way.module)
        self._kept.update(key for key, module in lasting if module not in moving)

    def _all_stay(self, key: tuple[int, str], site: Site) -> bool:
        """Whether a module is used, and by names that stay. `self.mp` is not seen."""
        users = self._users.get(key, [])
        return bool(users) and not any(users) and site.scope.kind != CLASS
