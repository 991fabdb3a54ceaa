"""Decides what becomes of an old dotted path: the new one, or why it stays."""

import ast
import dataclasses
import functools
from typing import Any, NamedTuple

from tf_lso import names
from tf_lso.names.keras3_names import KERAS_COPY, SHARED
from tf_lso.names.targets import TARGETS
from tf_lso.source import lookup
from tf_lso.source import reasons as left
from tf_lso.source.inference import Inference
from tf_lso.source.lookup import WORKS
from tf_lso.source.scopes import CLASS, Place, Site
from tf_lso.source.syntax import IMPORT_STATEMENTS, chain_of, imported_paths, literal
from tf_lso.source.values import Value

LEAST, TF_LSO = "least", "tf_lso"

# Names that are the same in TensorFlow 2.12-2.15 and today.
_LASTING = ("Policy", "global_policy")
# Policies that have the same name in the stable API and in today's Keras.
_KERAS_HAS = (*_LASTING, "set_global_policy")
_LEGACY_KERAS, _FLOAT16 = "TF_USE_LEGACY_KERAS", "mixed_float16"


@dataclasses.dataclass(frozen=True)
class Options:
    """What the command line asks for.

    Attributes:
      prefer: LEAST, which leaves the names that work in all versions, or TF_LSO, to which
        all move.
      install: whether `tf_lso.install()` may be added to files that need it.
      like: the TensorFlow whose Keras the program gets, such as "2.4", or None.
      select: the rules that count, or none for all.
      ignore: the rules that do not count.
    """

    prefer: str = LEAST
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

    def spelled(self, path: str) -> str:
        """Return the new path of an old one that begins with those parts."""
        return ".".join([self.module, *path.split(".")[self.parts :]])


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
    """What becomes of the old names of one program, decided once for each place.

    With LEAST, a name that works in all versions stays, and so does a module of which
    only such names are used. A statement that imports one name that moves moves whole.
    `keras3` says whether the program is written for Keras 3; `silenced` are the places
    that a comment silences.

    Attributes:
      imports: import statement -> its names that move, and where to.
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
        self._least = options.prefer == LEAST
        self._legacy_keras, self._float16 = _LEGACY_KERAS in text, _FLOAT16 in text
        # (id of an import or chain, path) -> what becomes of the path there.
        self._decided: dict[tuple[int, str], Decision] = {}
        self.imports: dict[Site, dict[ast.alias, New]] = {}
        users = self._users()
        for site in inference.program.sites:
            self._decide_all(site, users, silenced)

    def at(self, node: Any, path: str) -> Decision:
        """Return what becomes of a path at a node.

        An import or a module stays if all that is made of it does.
        """
        key = id(node), path
        return self._decided[key] if key in self._decided else self._alone(node, path)

    def moved(self, value: Value) -> bool:
        """Whether a value is tf_lso's own once the file is migrated."""
        return any(isinstance(self.at(s.node, s.path), New) for s in value.stops)

    def decide(self, path: str) -> Decision:
        """Return what becomes of a dotted path, aliases resolved, wherever it stands."""
        module, name = lookup.split(path)
        if not module:
            return None
        path = f"{module}.{name}" if name else module
        namespace, verdict = lookup.MODULES[module], lookup.of_path(path)
        there, tf_keras = lookup.is_there(module), lookup.in_tf_keras(module)
        # All of Keras is TensorFlow's own copy, which fits itself.
        of_copy = module.startswith(KERAS_COPY) and self.inference.copy_only
        # The policies there may belong to another Keras than `tf.keras`.
        other = self._legacy_keras and module.startswith("keras.")
        new = New(f"tf_lso.{namespace}", module.count(".") + 1, lookup.symbol(path))
        special = name.startswith("__")
        if name == "*":
            return Stays(left.STAR, path) if verdict else None
        if namespace == "contrib.mixed_precision":
            return Stays(left.CONTRIB, path, verdict.current if verdict else "")
        if not name or name == "__dict__" or (special and not there):
            # The module itself is imported or handed on.
            shared = namespace.removeprefix("compat.v2.")
            new = new._replace(symbol=f"{shared}.")
            if not there:
                return Stays(left.LEGACY_KERAS, module) if other or tf_keras else new
            if self.keras3 and lookup.is_own(f"{module}.Policy"):
                return Stays(left.KERAS_3, module, new.module)
            # Where it stays, only uses of its names move.
            stays = shared in SHARED or other or tf_keras or of_copy
            return None if stays else new
        if special or of_copy:
            return None
        if not new.symbol:
            return Stays(left.STRANGER, path) if verdict else None
        if verdict is None and name not in _KERAS_HAS:
            return None  # a name of today's API only; compat.v1's policies are too
        if self.keras3 and lookup.is_own(path):
            return Stays(left.KERAS_3, path, f"{new.module}.{name}")
        if tf_keras:
            return Stays(left.TF_KERAS, path)
        if other and new.symbol in names.POLICIES:
            return Stays(left.LEGACY_KERAS, path)
        return new

    # --- One decision for each import and chain.

    def _alone(self, node: Any, path: str) -> Decision:
        """Return what becomes of a path at a node, whatever else is made of it."""
        way = self.decide(path)
        lasts = path not in lookup.MODULES and self._lasts(node, path)
        return None if isinstance(way, New) and lasts else way

    def _lasts(self, node: Any, path: str) -> bool:
        """Whether a name or module needs no move for itself."""
        if not self._least:
            return False
        call = self.inference.program.calls.get(id(node))
        if lookup.symbol(path) == "set_global_policy" and call and call.args:
            other = literal(call.args[0]) not in (None, _FLOAT16)
            return other and not self._float16 and lookup.is_own(path)
        return works_everywhere(path, lookup.how_of(node))

    def _users(self) -> dict[tuple[int, str], bool]:
        """Return (id of an import or chain, path) -> whether anything taken of it moves."""
        users: dict[tuple[int, str], bool] = {}
        for site in self.inference.program.sites:
            match site.node:
                case ast.Attribute():
                    chain = chain_of(site.node)
                    owner, steps = chain[0].value, ".".join(part.attr for part in chain)
                case ast.Call(_, [owner, asked, *_]):  # `getattr(a, "b")`
                    steps = literal(asked) or ""
                case _:
                    continue
            found = self.inference.of(owner, site.scope)
            for value in found.owners(steps.partition(".")[0]).certain:
                way = self._alone(site.node, f"{value.path}.{steps}")
                for stop in value.stops:
                    key = id(stop.node), stop.path
                    users[key] = users.get(key, False) or isinstance(way, New)
        return users

    def _decide_all(
        self, site: Site, users: dict[tuple[int, str], bool], silenced: set[Place]
    ) -> None:
        """Decide about the names of an import, or the paths of a chain, together."""
        node = site.node
        parts: list[tuple[Any, str]] = []
        if isinstance(node, IMPORT_STATEMENTS):
            parts = list(zip(node.names, imported_paths(node)))
        elif isinstance(node, ast.Attribute):
            parts = [(node, path) for path in self.inference.paths(node, site.scope)]
        new, moving = {}, set()
        for part, path in parts:
            way = None if site.at(part) in silenced else self.decide(path)
            self._decided[id(node), path] = way
            if isinstance(way, New):
                new[part, path] = way
                lasts = self._lasts(node, path)
                if path in lookup.MODULES:  # `self.mp` is not seen
                    moves = users.get((id(node), path), True)
                    lasts = lasts and not moves and site.scope.kind != CLASS
                if not lasts:
                    moving.add(way.module)
        for (part, path), way in new.items():
            if way.module not in moving:
                self._decided[id(node), path] = None
            elif part is not node:
                self.imports.setdefault(site, {})[part] = way
