"""Plans the edits of a program, and says why others are not made."""

import ast
import re
from typing import Any

from tf_lso.source import lookup
from tf_lso.source import reasons as left
from tf_lso.source.inference import Found, Value
from tf_lso.source.reasons import Reason, WhyNot
from tf_lso.source.renaming import New, Renaming, Stays
from tf_lso.source.scopes import Imported, Place, Program, Scope, Site
from tf_lso.source.syntax import chain_of, imported_paths
from tf_lso.source.texts import Edit, Text

Moves = dict[ast.alias, New]  # of an import statement


class Plan:
    """The edits of one program: `add_imports` and `add_chains` note them.

    Attributes:
      root: the name under which `tf_lso` is imported.
      edits: cell -> its edits.
      imports: import statements whose names move: id -> (site, alias -> `New`).
      needs: (scope that has to see the name `tf_lso`, what TensorFlow comes from).
      fixes: place -> what is done there.
      left: place -> (name, why nothing is done there).
      read: ids of chains and strings that are planned already.
    """

    def __init__(
        self,
        program: Program,
        trees: dict[int | None, ast.Module],
        texts: dict[int | None, Text],
        renaming: Renaming,
    ) -> None:
        self.program = program
        self.trees = trees
        self.texts = texts
        self.renaming = renaming
        self.moved = renaming.moved
        self.inference = renaming.inference
        self.root = _free_name(program)
        self.edits: dict[int | None, dict[Edit, None]] = {}  # as ordered sets
        self.imports: dict[int, tuple[Site, Moves]] = {}
        self.needs: list[tuple[Scope, tuple[Value, ...]]] = []
        self.fixes: dict[Place, str] = {}
        self.left: dict[Place, tuple[str, WhyNot]] = {}
        self.read: set[int] = set()

    def edit(self, cell: int | None, start: int, end: int, new: str) -> None:
        """Note an edit."""
        self.edits.setdefault(cell, {})[Edit(start, end, new)] = None

    def fix(self, site: Site, node: Any, does: str) -> None:
        """Note that a place is fixed."""
        self.fixes[site.at(node)] = does

    def leave(
        self, site: Site, node: Any, name: str, reason: Reason, instead: str = ""
    ) -> None:
        """Note that something at a node stays as it is. Each place is noted once."""
        self.left.setdefault(site.at(node), (name, reason.of(instead)))

    # --- Imports.

    def add_imports(self) -> None:
        """Plan the import statements."""
        for site in self.program.sites:
            if isinstance(site.node, (ast.Import, ast.ImportFrom)):
                self._import(site)

    def _import(self, site: Site) -> None:
        moves = {}
        is_from = isinstance(site.node, ast.ImportFrom)
        for alias, path in zip(site.node.names, imported_paths(site.node)):
            if alias.name == "*":
                if verdict := lookup.star(site.node.module):
                    self.leave(site, alias, path, left.STAR, verdict.replacement or "")
                continue
            way = self.renaming.at(site.node, path, imported=is_from)
            if isinstance(way, New):
                moves[alias] = way
                self.fix(site, alias, way.module)
            elif isinstance(way, Stays):
                self.leave(site, alias, way.name, way.reason, way.instead)
        if moves:
            self.imports[id(site.node)] = site, moves

    # --- Attributes.

    def add_chains(self) -> None:
        """Plan the chains of attributes, such as `tf.keras.mixed_precision.Policy`."""
        for site in self.program.sites:
            if isinstance(site.node, ast.Attribute) and id(site.node) not in self.read:
                text = self.texts[site.cell]
                if edit := self.chain(site, site.node, text):
                    self.edit(site.cell, *edit)
                    self.fix(site, site.node, edit.new)

    def chain(self, site: Site, at: ast.AST, text: Text) -> Edit | None:
        """Return the edit of a chain of attributes, if there is one.

        `text` is what the chain's positions are of. The place is told to be at `at`.
        """
        chain = chain_of(site.node)
        base = chain[0].value
        steps = [node.attr for node in chain]
        found = self.inference.of(base, site.scope)
        if not found.certain:
            if found.doubt and _is_telling(steps, base, self.program):
                path = ".".join([getattr(base, "id", "…"), *steps])
                self.leave(site, at, path, found.doubt, _guess(steps))
            return None
        new = self.decided(site, at, found, steps)
        if new is None:
            return None
        ref = next(v for v in found.certain if not self.moved(v))
        edit, reason = None, left.LAYOUT
        if not isinstance(chain[-1].ctx, ast.Load) and (
            len(chain) <= new.parts - ref.path.count(".")
        ):  # it assigns to the old name itself, or to a module on its way
            reason = left.STORED
        else:
            edit = _replaced(text, chain, new, ref)
            if not isinstance(base, ast.Name):
                reason = left.CALLED
        if edit is None:
            self.leave(site, at, ".".join([ref.path, *steps]), reason, new.module)
            return None
        self.needs.append((site.scope, found.certain))
        return edit._replace(new=self.rooted(edit.new))

    def decided(
        self, site: Site, node: Any, found: Found, steps: list[str]
    ) -> New | None:
        """Return the new name if all that a chain may start with agrees on it.

        Otherwise note why the chain stays, and return None.
        """
        ways, last = {}, ".".join(steps)
        call = self.program.calls.get(id(site.node))
        for ref in found.certain:
            way = self.renaming.at(site.node, f"{ref.path}.{last}", call=call)
            if isinstance(way, New):
                here = way.parts > ref.path.count(".")  # else the import moves
                if self.moved(ref) or not here:
                    self.fix(site, node, way.module)
                    way = None
            elif way is not None and self.moved(ref) and way.reason != left.STRANGER:
                way = None
            ways[ref] = way
        stays = [way for way in ways.values() if isinstance(way, Stays)]
        new = [way for way in ways.values() if isinstance(way, New)]
        # If only one of several modules has the name, that one is meant.
        certain = [way for way in stays if way.reason != left.STRANGER]
        if stays and (len(stays) == len(ways) or (certain and not new)):
            self.leave(site, node, stays[0].name, stays[0].reason, stays[0].instead)
        if not new:
            return None
        doubt = found.doubt or (left.SEVERAL if certain else None)
        known = [way for way in ways.values() if not isinstance(way, Stays)]
        if len({way.symbol for way in new}) > 1 or len(new) < len(known):
            doubt = doubt or left.SEVERAL
        if doubt:
            ref = next(ref for ref, way in ways.items() if isinstance(way, New))
            path = f"{ref.path}.{last}"
            tail = path.split(".")[new[0].parts :]
            self.leave(site, node, path, doubt, ".".join([new[0].module, *tail]))
            return None
        return new[0]

    def rooted(self, path: str) -> str:
        """Return a path of tf_lso, as the program is to spell it."""
        first, dot, rest = path.partition(".")
        return (self.root if first == "tf_lso" else first) + dot + rest


def _free_name(program: Program) -> str:
    """Return the name for `import tf_lso`: another one where the program has that."""
    name = "tf_lso"
    while any(
        not (isinstance(binding.value, Imported) and binding.value.path == name)
        for scope in program.scopes
        for binding in scope.names.get(name, ())
    ):
        name += "_"
    return name


# --- Chains of attributes.

_SPACE = re.compile(r"\\?\s")
# Names that only the old API and its modules have.
_TELLING = re.compile(
    r"(^|\.)mixed_precision\.(experimental|LossScaleOptimizer|Policy|global_policy|"
    r"set_global_policy)\b|(^|\.)keras\.mixed_precision\b|"
    r"\.((Dynamic|Fixed)LossScale|enable_mixed_precision_graph_rewrite)$"
)


def _replaced(
    text: Text, chain: list[ast.Attribute], new: New, ref: Value
) -> Edit | None:
    """Return the edit of the shortest beginning of a chain that makes it the new one.

    None where the name does not stand there as plain text.
    """
    steps = new.parts - ref.path.count(".") - 1  # attributes that the module replaces
    module = new.module.split(".")
    while steps > 0 and len(module) > 1 and chain[steps - 1].attr == module[-1]:
        steps -= 1
        module.pop()
    node = chain[steps].value if steps < len(chain) else chain[-1]
    spelled = [part.attr for part in chain[:steps]]
    base = chain[0].value
    if isinstance(base, ast.Name):
        spelled.insert(0, base.id)
    # Before Python 3.12 the parser misplaces names in f-strings of several lines.
    if _SPACE.sub("", text.of(node)) != ".".join(spelled) or len(spelled) != steps + 1:
        return None
    return Edit(text.start(node), text.end(node), ".".join(module))


def _is_telling(steps: list[str], base: ast.AST, program: Program) -> bool:
    """Whether a chain looks like an old name, though what it begins with is not seen."""
    usual = getattr(base, "id", "") in ("tf", "tensorflow", "keras")
    # As in `sys.modules["tensorflow"]`.
    texts = (part.value for part in ast.walk(base) if isinstance(part, ast.Constant))
    named = not lookup.FRAMEWORKS.isdisjoint(texts)
    if not (usual or named or program.packages & lookup.FRAMEWORKS):
        return False
    spelled = ".".join([getattr(base, "id", ""), *steps])
    return bool(_TELLING.search(spelled))


def _guess(steps: list[str]) -> str:
    """Return the new name that such a chain would have, for people."""
    for start in range(len(steps)):  # `self.tf.keras…` ends as `keras…` does
        parts = ["tensorflow", *steps[start:]]
        for end in range(len(parts), 1, -1):
            module = lookup.MODULES.get(".".join(parts[:end]))
            if module:
                return ".".join(["tf_lso", module, *parts[end : end + 1]])
    return "the name in tf_lso"
