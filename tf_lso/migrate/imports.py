"""Which names of an import statement move."""

import ast
from typing import TYPE_CHECKING

from tf_lso.migrate import left
from tf_lso.migrate.paths import New, Stays, decide
from tf_lso.programs import lookup
from tf_lso.programs.scopes import Site
from tf_lso.programs.syntax import imported_paths

if TYPE_CHECKING:
    from tf_lso.migrate.plan import Plan


def plan(plan: "Plan", site: Site) -> None:
    """Plan an `import a.b` or a `from a import b`."""
    moves = {}
    is_from = isinstance(site.node, ast.ImportFrom)
    for alias, path in zip(site.node.names, imported_paths(site.node)):
        if alias.name == "*":
            if verdict := lookup.star(site.node.module):
                plan.leave(site, alias, path, left.STAR, verdict.replacement or "")
            continue
        way = decide(path, plan.settings, imported=is_from)
        if isinstance(way, New):
            moves[alias] = way
        elif isinstance(way, Stays):
            plan.leave(site, alias, way.name, way.reason, way.instead)
    if moves:
        plan.imports[id(site.node)] = site, moves
