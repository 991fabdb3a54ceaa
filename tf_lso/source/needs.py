"""What in a program relies on more than names, so that `install()` has to stay."""

import ast
import re
from collections.abc import Iterator

from tf_lso import names
from tf_lso import optimizer_table as table
from tf_lso.names import beyond
from tf_lso.source import lookup
from tf_lso.source import uses as rules
from tf_lso.source.guards import Branch, Guard, types_asked_for
from tf_lso.source.plan import Plan
from tf_lso.source.renaming import New, decide
from tf_lso.source.scopes import Scope, Site
from tf_lso.source.syntax import chain_of, imported_paths, last_name
from tf_lso.source.values import Values, optimizer_of
from tf_lso.source.verdict import WRONG

Needed = tuple[Site, ast.AST, str]

_OPTIMIZER = re.compile(r"(^|_)(opt|optim|optimizer|inner)s?\d*$", re.IGNORECASE)
_KERAS = ("keras.", "tensorflow.keras.")


def find(plan: Plan) -> list[Needed]:
    """Return (site, node, what) for each place that needs `install()`."""
    values = Values(plan.program)
    found: list[Needed] = []
    for site in plan.program.sites:
        of = _call if isinstance(site.node, ast.Call) else _path
        found += [(site, site.node, what) for what in of(plan, values, site)]
    for cell, tree in plan.trees.items():
        text = plan.texts[cell].text  # most texts lack the words: no walk
        if beyond.SCHEDULE in text:
            found += _schedules(plan, cell, tree)
        if any(name in text for name in beyond.CALLBACKS):
            found += _logged(plan, cell, tree)
    return found


# Calls that wrap an optimizer, or make `compile` do it.
_WRAPPING = (*names.OPTIMIZERS, "set_global_policy", "set_policy", "set_dtype_policy")


def guards(plan: Plan) -> list[Needed]:
    """Return (site, node, method) for each guard that passes over today's optimizer.

    Empty if the migrated program itself wraps optimizers by tf_lso.
    """
    texts = plan.texts.values()
    if not any(name in text.text for text in texts for name in names.SCALING):
        return []
    if any(_wraps(plan, site) for site in plan.program.sites):
        return []
    found: list[Needed] = []
    for use in rules.uses(plan.program):
        if use.verdict.status == WRONG and not use.guarded:
            node = ast.Name("", lineno=use.line, col_offset=use.offset)
            site = Site(node, plan.program.module, (), use.cell)
            found.append((site, node, use.verdict.name.rpartition(".")[2]))
    for site in plan.program.sites:
        if isinstance(site.node, ast.Attribute) and site.node.attr in names.SCALING:
            if any(_asks_for_ours(plan, guard) for guard in site.guards):
                found.append((site, site.node, site.node.attr))
    return found


def _wraps(plan: Plan, site: Site) -> bool:
    return isinstance(site.node, ast.Call) and any(
        lookup.symbol(ref.path) in _WRAPPING or ref.path.split(".")[-1] in _WRAPPING
        for ref in plan.resolver.of(site.node.func, site.scope).refs
        if _becomes_ours(plan, ref.path)
    )


def _becomes_ours(plan: Plan, path: str) -> bool:
    return path.startswith("tf_lso.") or isinstance(decide(path, plan.settings), New)


def _asks_for_ours(plan: Plan, guard: Guard) -> bool:
    """Whether a branch is for instances of a class that will be tf_lso's."""
    return isinstance(guard, Branch) and any(
        _becomes_ours(plan, ref.path)
        for kind in types_asked_for(guard)
        for ref in plan.resolver.of(kind, guard.scope).refs
    )


def _path(plan: Plan, values: Values, site: Site) -> Iterator[str]:
    """Yield what an import or a chain of attributes needs."""
    node = site.node
    for path in plan.resolver.paths(site):
        for space in beyond.OPTIMIZER_NAMESPACES:
            if f"{path}.".startswith(tuple(f"{k}{space}." for k in _KERAS)):
                yield f"`{space}`"
    for path in _kept(plan, site):
        if f"{path}.".startswith(tuple(f"{p}." for p in beyond.PACKAGES)):
            yield f"the package `{path}`"
    for part in chain_of(node):
        if part.attr in beyond.ATTRIBUTES:
            if _is_optimizer(values, part.value, site.scope):
                yield f"`{part.attr}` of an optimizer"


def _kept(plan: Plan, site: Site) -> list[str]:
    """Return the modules that an import statement still imports after the migration."""
    _, moves = plan.imports.get(id(site.node), (site, {}))
    if isinstance(site.node, ast.Import):
        return [alias.name for alias in site.node.names if alias not in moves]
    if isinstance(site.node, ast.ImportFrom):
        return [site.node.module or ""] * (len(moves) < len(site.node.names))
    return []


def _call(plan: Plan, values: Values, site: Site) -> Iterator[str]:
    """Yield what a call needs."""
    call = site.node
    name = last_name(call.func)
    given = {keyword.arg for keyword in call.keywords}
    if name in table.OLD:
        for argument in sorted(given.intersection(beyond.ARGUMENTS)):
            yield f"the argument `{argument}` of an optimizer"
    if name == "apply_gradients" and isinstance(call.func, ast.Attribute):
        if not _is_scaled(values, call.func.value, site.scope):
            for argument in sorted(given.intersection(beyond.APPLY_ARGUMENTS)):
                yield f"the argument `{argument}` of apply_gradients"
    paths = [ref.path for ref in plan.resolver.of(call.func, site.scope).refs]
    for known in (*beyond.LOADING, *beyond.BACKEND):
        if any(p.startswith(_KERAS) and p.endswith(f".{known}") for p in paths):
            yield f"`{known.rpartition('.')[2]}`"


def _is_scaled(values: Values, node: ast.AST, scope: Scope) -> bool:
    """Whether an object is known to be a LossScaleOptimizer, which needs no help."""
    found = values.of(node, scope)
    return bool(found) and all(map(optimizer_of, found))


def _is_optimizer(values: Values, node: ast.AST, scope: Scope, depth: int = 4) -> bool:
    """Whether an object looks like an optimizer that may not be wrapped."""
    if not depth:
        return False
    if isinstance(node, ast.Attribute):
        return bool(_OPTIMIZER.search(node.attr))
    if isinstance(node, ast.Call):
        return last_name(node.func) in table.OLD
    if isinstance(node, ast.IfExp):
        parts = (node.body, node.orelse)
        return any(_is_optimizer(values, part, scope, depth - 1) for part in parts)
    if not isinstance(node, ast.Name):
        return False
    owner = scope.find(node.id)
    known = False
    for binding in owner.names[node.id] if owner else ():
        if isinstance(binding.value, ast.expr):
            if _is_optimizer(values, binding.value, binding.scope, depth - 1):
                return True
            known |= _is_scaled(values, binding.value, binding.scope)
    return not known and bool(_OPTIMIZER.search(node.id))


def _schedules(plan: Plan, cell: int | None, tree: ast.Module) -> Iterator[Needed]:
    for node in ast.walk(tree):
        for base in node.bases if isinstance(node, ast.ClassDef) else ():
            if last_name(base) == beyond.SCHEDULE:
                site = Site(node, plan.program.module, (), cell)
                yield site, base, "a learning rate schedule of its own"


def _logged(plan: Plan, cell: int | None, tree: ast.Module) -> Iterator[Needed]:
    """Yield uses of `history["lr"]` if a callback logs it."""
    nodes = list(ast.walk(tree))
    if {*map(last_name, nodes)}.isdisjoint(beyond.CALLBACKS):
        return
    for node in nodes:
        if isinstance(node, ast.Constant) and node.value == beyond.LOGGED:
            site = Site(node, plan.program.module, (), cell)
            yield site, node, f"the logged `{beyond.LOGGED}`"


def place(trees: dict[int | None, ast.Module]) -> ast.stmt | None:
    """Return the statement before which `install()` is to be called, or None.

    That is the statement at the top level that first imports TensorFlow or Keras.
    """
    for tree in trees.values():
        for statement in tree.body:
            if isinstance(
                statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
            ):
                continue
            if any(map(_imports_framework, ast.walk(statement))):
                return statement
    return None


def _imports_framework(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom) and node.level:
        return False
    return isinstance(node, (ast.Import, ast.ImportFrom)) and any(
        path.split(".")[0] in lookup.FRAMEWORKS for path in imported_paths(node)
    )


def is_installed(plan: Plan) -> bool:
    """Whether the program calls `tf_lso.install()` already."""
    return any(
        ref.path == "tf_lso.install"
        for site in plan.program.sites
        if isinstance(site.node, ast.Call)
        for ref in plan.resolver.of(site.node.func, site.scope).refs
    )
