"""What in a program asks for `tf_lso.install()`, and where it is to be called."""

import ast
from collections.abc import Iterable, Iterator

from tf_lso import names
from tf_lso.source import lookup, rules
from tf_lso.source.diagnostics import Diagnostic
from tf_lso.source.renaming import New, Renaming
from tf_lso.source.scopes import Place, Scope
from tf_lso.source.syntax import IMPORT_STATEMENTS, imported_paths

# Calls that wrap an optimizer, or make `compile` do it.
WRAPPING = {*names.OPTIMIZERS, "set_global_policy", "set_policy", "set_dtype_policy"}
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _ours(renaming: Renaming, node: ast.AST, scope: Scope) -> list[str]:
    """Return the paths of an expression that are tf_lso's once the file is migrated."""
    return [
        path
        for path in renaming.inference.paths(node, scope)
        if path.startswith("tf_lso.") or isinstance(renaming.decide(path), New)
    ]


def wraps(renaming: Renaming) -> bool:
    """Whether a call of the migrated program wraps optimizers by tf_lso."""
    return any(
        {lookup.symbol(path), path.rpartition(".")[2]} & WRAPPING
        for site in renaming.inference.program.sites
        if isinstance(site.node, ast.Call)
        for path in _ours(renaming, site.node.func, site.scope)
    )


def guards(
    uses: Iterable[Diagnostic], renaming: Renaming
) -> Iterator[tuple[Place, str]]:
    """Yield (place, method) of each guard that passes over today's optimizer.

    They matter where the program wraps no optimizers by tf_lso itself.
    """
    for use in uses:
        if use.rule == rules.SILENT and not use.guarded:
            yield use.place, use.verdict.name.rpartition(".")[2]
    program = renaming.inference.program
    tests = (site for site in program.sites if id(site.node) in program.type_tests)
    # A test for a class that will be tf_lso's.
    if any(_ours(renaming, test.node, test.scope) for test in tests):
        for site in program.sites:
            if isinstance(site.node, ast.Attribute) and site.node.attr in names.SCALING:
                yield site.place, site.node.attr


def place(trees: dict[int | None, ast.Module], anywhere: bool) -> ast.stmt | None:
    """Return the statement at the top before which `install()` is to be called, or None.

    That is the one that first imports TensorFlow or Keras. If nothing does, and
    `anywhere`, it is the first import that others may precede.
    """
    other = None
    for statement in (s for tree in trees.values() for s in tree.body):
        if isinstance(statement, _DEFINITIONS):
            continue
        for node in ast.walk(statement):
            if not isinstance(node, IMPORT_STATEMENTS):
                continue
            first = {path.split(".")[0] for path in imported_paths(node)}
            if not first.isdisjoint(lookup.FRAMEWORKS):
                return statement
            if node is statement and "__future__" not in first:
                other = other or statement
    return other if anywhere else None
