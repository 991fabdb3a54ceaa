"""Which names of an import statement move."""

import ast

from tf_lso.migrate import left
from tf_lso.migrate.paths import New, Stays, decide
from tf_lso.programs import lookup
from tf_lso.programs.scopes import Site


def plan(plan, site: Site) -> None:
    """Plans an `import a.b`."""
    moves = {}
    for alias in site.node.names:
        way = _way(plan, site, alias, alias.name)
        if isinstance(way, New):
            moves[alias] = way
    if moves:
        plan.imports[id(site.node)] = site, moves


def plan_from(plan, site: Site) -> None:
    """Plans a `from a import b`."""
    moves = {}
    module = site.node.module
    for alias in site.node.names:
        if alias.name == "*":
            verdict = lookup.star(module)
            if verdict:
                new = verdict.replacement or ""
                plan.leave(site, alias, f"{module}.*", left.STAR, new)
            continue
        way = _way(plan, site, alias, f"{module}.{alias.name}")
        if isinstance(way, New):
            moves[alias] = way
    if moves:
        plan.imports[id(site.node)] = site, moves


def _way(plan, site, alias, path):
    way = decide(path, plan.settings, imported=isinstance(site.node, ast.ImportFrom))
    if isinstance(way, Stays):
        plan.leave(site, alias, way.name, way.reason, way.instead)
    return way
