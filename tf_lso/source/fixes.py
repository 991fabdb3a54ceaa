"""Plans the edits of a program, and says why others are not made."""

import ast
import dataclasses
from typing import Any

from tf_lso.source import calls, lookup, strings
from tf_lso.source import reasons as left
from tf_lso.source.chains import free_name, guess, is_telling, replaced
from tf_lso.source.diagnostics import Place
from tf_lso.source.inference import Found, Value
from tf_lso.source.reasons import Reason, WhyNot
from tf_lso.source.renaming import New, Renaming, Stays
from tf_lso.source.scopes import Program, Scope, Site
from tf_lso.source.syntax import chain_of, imported_paths
from tf_lso.source.texts import Edit, Text

Moves = dict[ast.alias, New]  # of an import statement


@dataclasses.dataclass(frozen=True)
class Need:
    """`scope` has to see the name `tf_lso`. TensorFlow comes from `refs`."""

    scope: Scope
    refs: tuple[Value, ...]


class Plan:
    """The edits of one program.

    Attributes:
      root: the name under which `tf_lso` is imported.
      edits: cell -> its edits.
      imports: import statements whose names move: id -> (site, alias -> `New`).
      needs: what has to see the name `tf_lso`.
      fixes: place -> what is done there.
      left: place -> (name, why nothing is done there).
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
        self.root = free_name(program)
        self.edits: dict[int | None, dict[Edit, None]] = {}  # as ordered sets
        self.imports: dict[int, tuple[Site, Moves]] = {}
        self.needs: list[Need] = []
        self.fixes: dict[Place, str] = {}
        self.left: dict[Place, tuple[str, WhyNot]] = {}
        self.read: set[int] = set()  # ids of strings and chains that calls have planned
        for site in program.sites:  # calls first: they also plan their arguments
            if isinstance(site.node, ast.Call):
                calls.plan(self, site)
            elif isinstance(site.node, (ast.Import, ast.ImportFrom)):
                self._import(site)
        for site in program.sites:
            if isinstance(site.node, ast.Attribute):
                self.chain(site)
        strings.plan(self)

    # --- What the other modules say.

    def edit(self, cell: int | None, start: int, end: int, new: str) -> None:
        """Note an edit."""
        self.edits.setdefault(cell, {})[Edit(start, end, new)] = None

    def need(self, scope: Scope, refs: tuple[Value, ...]) -> None:
        """Note that `tf_lso` has to be bound for an edit in that scope."""
        self.needs.append(Need(scope, refs))

    def fix(self, site: Site, node: Any, does: str) -> None:
        """Note that a place is fixed."""
        self.fixes[_place(site, node)] = does

    def leave(
        self, site: Site, node: Any, name: str, reason: Reason, instead: str = ""
    ) -> None:
        """Note that something at a node stays as it is. Each place is noted once."""
        self.left.setdefault(_place(site, node), (name, reason.of(instead)))

    # --- Imports.

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

    def chain(
        self, site: Site, at: ast.AST | None = None, text: Text | None = None
    ) -> Edit | None:
        """Return and note the edit of a chain of attributes, if there is one.

        Within a string, `at` is the string's node, and `text` is what the chain's
        positions are of. Then the edit is returned only.
        """
        if id(site.node) in self.read:
            return None
        at = at or site.node
        chain = chain_of(site.node)
        base = chain[0].value
        steps = [node.attr for node in chain]
        found = self.inference.of(base, site.scope)
        if not found.certain:
            if found.doubt and is_telling(steps, base, self.program):
                path = ".".join([getattr(base, "id", "…"), *steps])
                self.leave(site, at, path, found.doubt, guess(steps))
            return None
        new = self.decided(site, at, found, steps)
        if new is None:
            return None
        ref = next(v for v in found.certain if not self.moved(v))
        edit, reason = None, left.LAYOUT
        if self._is_stored(chain, new.parts - ref.path.count(".")):
            reason = left.STORED
        else:
            edit = replaced(text or self.texts[site.cell], chain, new, ref)
            if not isinstance(base, ast.Name):
                reason = left.CALLED
        if edit is None:
            self.leave(site, at, ".".join([ref.path, *steps]), reason, new.module)
            return None
        edit = edit._replace(new=self.rooted(edit.new))
        if text is None:
            self.edit(site.cell, *edit)
            self.fix(site, at, edit.new)
        self.need(site.scope, found.certain)
        return edit

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

    def _is_stored(self, chain: list[ast.Attribute], length: int) -> bool:
        """Whether the chain assigns to the old name itself, or to a module on its way."""
        return not isinstance(chain[-1].ctx, ast.Load) and len(chain) <= length


def _place(site: Site, node: Any) -> Place:
    return site.cell or 0, node.lineno, node.col_offset
