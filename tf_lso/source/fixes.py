"""Plans the edits of a program, and says why others are not made."""

import ast
import re
from typing import Any

from tf_lso.source import lookup
from tf_lso.source import reasons as left
from tf_lso.source.program import Program
from tf_lso.source.reading import Sources
from tf_lso.source.reasons import Reason
from tf_lso.source.renaming import New, Renaming, Stays
from tf_lso.source.scopes import Imported, Place, Scope, Site
from tf_lso.source.syntax import IMPORT_STATEMENTS, chain_of, imported_paths
from tf_lso.source.texts import Edit, Text
from tf_lso.source.values import Found, Value

_SPACE = re.compile(r"\\?\s")
# Names that only the old API and its modules have.
_TELLING = re.compile(
    r"(^|\.)mixed_precision\.(experimental|LossScaleOptimizer|Policy|global_policy|"
    r"set_global_policy)\b|(^|\.)keras\.mixed_precision\b|"
    r"\.((Dynamic|Fixed)LossScale|enable_mixed_precision_graph_rewrite)$"
)


class Plan:
    """The edits of one program: `add_imports` and `add_chains` note them.

    Attributes:
      root: the name under which `tf_lso` is imported.
      edits: cell -> its edits.
      needs: (scope that has to see the name `tf_lso`, what TensorFlow comes from).
      fixes: place -> what is done there.
      left: place -> (name, why nothing is done there).
      read: ids of chains and strings that are planned already.
    """

    def __init__(self, read: Sources, renaming: Renaming) -> None:
        self.trees, self.texts = read.trees, read.texts
        self.renaming, self.moved = renaming, renaming.moved
        self.inference = renaming.inference
        self.program = self.inference.program
        self.root = _free_name(self.program)
        self.edits: dict[int | None, dict[Edit, None]] = {}  # as ordered sets
        self.needs: list[tuple[Scope, tuple[Value, ...]]] = []
        self.fixes: dict[Place, str] = {}
        self.left: dict[Place, tuple[str, Reason]] = {}
        self.read: set[int] = set()

    def edit(self, cell: int | None, start: int, end: int, new: str) -> None:
        """Note an edit."""
        self.edits.setdefault(cell, {})[Edit(start, end, new)] = None

    def fix(self, site: Site, node: Any, does: str) -> None:
        """Note that a place is fixed."""
        self.fixes[site.at(node)] = does

    def leave(
        self, site: Site, node: Any, reason: Reason, name: str, instead: str = ""
    ) -> None:
        """Note that a name at a node stays as it is. Each place is noted once."""
        self.left.setdefault(site.at(node), (name, reason.of(instead)))

    def add_imports(self) -> None:
        """Plan the import statements."""
        for site in self.program.sites:
            if not isinstance(site.node, IMPORT_STATEMENTS):
                continue
            for alias, path in zip(site.node.names, imported_paths(site.node)):
                way = self.renaming.at(site.node, path)
                if isinstance(way, New):
                    self.fix(site, alias, way.module)
                elif way:
                    self.leave(site, alias, *way)

    def add_chains(self) -> None:
        """Plan the chains of attributes, such as `tf.keras.mixed_precision.Policy`."""
        for site in self.program.sites:
            if isinstance(site.node, ast.Attribute) and id(site.node) not in self.read:
                if edit := self.chain(site, site.node, self.texts[site.cell]):
                    self.edit(site.cell, *edit)
                    self.fix(site, site.node, edit.new)

    def chain(self, site: Site, at: ast.AST, text: Text) -> Edit | None:
        """Return the edit of a chain of attributes, if there is one.

        `text` is what the chain's positions are of. The place is told to be at `at`.
        """
        chain = chain_of(site.node)
        base = chain[0].value
        steps = [node.attr for node in chain]
        found = self.inference.of(base, site.scope).owners(steps[0])
        if not found.certain:
            if found.doubt and _is_telling(steps, base, self.program):
                path = ".".join([getattr(base, "id", "…"), *steps])
                self.leave(site, at, found.doubt, path, _guess(steps))
            return None
        new = self.decided(site, at, found, steps)
        if new is None:
            return None
        ref = next(v for v in found.certain if not self.moved(v))
        count = new.parts - ref.path.count(".") - 1  # attributes that it replaces
        # It may assign to the old name itself, or to a module on its way.
        stores = not isinstance(chain[-1].ctx, ast.Load) and len(chain) <= count + 1
        edit = None if stores else _replaced(text, chain, new.module, count)
        if edit is None:
            reason = left.LAYOUT if isinstance(base, ast.Name) else left.CALLED
            reason = left.STORED if stores else reason
            self.leave(site, at, reason, ".".join([ref.path, *steps]), new.module)
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
        for ref in found.certain:
            way = self.renaming.at(site.node, f"{ref.path}.{last}")
            if isinstance(way, New):
                if self.moved(ref) or way.parts <= ref.path.count("."):
                    self.fix(site, node, way.module)  # by its import
                    way = None
            elif way and self.moved(ref) and way.reason != left.STRANGER:
                way = None
            ways[ref] = way
        stays = [way for way in ways.values() if isinstance(way, Stays)]
        new = {ref: way for ref, way in ways.items() if isinstance(way, New)}
        # If only one of several modules has the name, that one is meant.
        certain = any(way.reason != left.STRANGER for way in stays)
        if stays and (len(stays) == len(ways) or (certain and not new)):
            self.leave(site, node, *stays[0])
        if not new:
            return None
        ref, way = next(iter(new.items()))
        agree = None not in ways.values() and len({w.symbol for w in new.values()}) == 1
        doubt = found.doubt or (None if agree and not certain else left.SEVERAL)
        if doubt is None:
            return way
        path = f"{ref.path}.{last}"
        self.leave(site, node, doubt, path, way.spelled(path))
        return None

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


def _replaced(
    text: Text, chain: list[ast.Attribute], module: str, steps: int
) -> Edit | None:
    """Return the edit of the shortest beginning of a chain that makes it the new one.

    None where the name does not stand there as plain text.
    """
    above, _, last = module.rpartition(".")
    while steps > 0 and above and chain[steps - 1].attr == last:
        steps, module = steps - 1, above
        above, _, last = module.rpartition(".")
    node = chain[steps].value if steps < len(chain) else chain[-1]
    spelled = [getattr(chain[0].value, "id", ""), *(n.attr for n in chain[:steps])]
    # Before Python 3.12 the parser misplaces names in f-strings of several lines.
    if _SPACE.sub("", text.of(node)) != ".".join(spelled):
        return None
    return Edit(text.start(node), text.end(node), module)


def _is_telling(steps: list[str], base: ast.AST, program: Program) -> bool:
    """Whether a chain looks like an old name, though what it begins with is not seen."""
    name = getattr(base, "id", "")
    # As in `sys.modules["tensorflow"]`.
    texts = [part.value for part in ast.walk(base) if isinstance(part, ast.Constant)]
    known = {*lookup.FRAMEWORKS, "tf"}
    if known.isdisjoint({name, *texts, *program.packages}):
        return False
    return bool(_TELLING.search(".".join([name, *steps])))


def _guess(steps: list[str]) -> str:
    """Return the new name that such a chain would have, for people."""
    for start in range(len(steps)):  # `self.tf.keras…` ends as `keras…` does
        parts = ["tensorflow", *steps[start:]]
        for end in range(len(parts), 1, -1):
            if module := lookup.MODULES.get(".".join(parts[:end])):
                return ".".join(["tf_lso", module, *parts[end : end + 1]])
    return ""
