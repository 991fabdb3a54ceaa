"""The fix of an old name: replace it where it stands, or move what binds it."""

import libcst as cst

from tf_lso.migrate import guards, verdicts
from tf_lso.migrate.findings import Finding
from tf_lso.migrate.nodes import imported_module, replaced_by, root
from tf_lso.migrate.program import Program

_GUARDED = "{}: it is left to tf_lso.install()."


def is_guarded(program: Program, finding: Finding, node: cst.CSTNode) -> bool:
    """Leave a finding that the program guards, and return whether it does."""
    guard = guards.guard(program, node)
    if guard:
        finding.guarded = True
        finding.leave(_GUARDED.format(guard))
        if finding.is_problem:
            finding.needs_install = "names below a guard"
    return bool(guard)


def fix(program: Program, finding: Finding, node: cst.BaseExpression) -> None:
    """Give a finding at an expression its fix, unless the program guards it."""
    new = finding.verdict.replacement
    if new and not is_guarded(program, finding, node):
        finding.fix = new
        _edit(program, finding, node, new)


def binding_is_guarded(
    program: Program, finding: Finding, node: cst.BaseExpression
) -> bool:
    """Leave a finding whose name is bound below a guard, and return whether it is."""
    first = root(node)
    bound = program.bindings(first) if isinstance(first, cst.Name) else ()
    return any(is_guarded(program, finding, binding) for binding in bound)


def _edit(
    program: Program,
    finding: Finding,
    node: cst.BaseExpression,
    new: str,
    seen: frozenset[cst.CSTNode] = frozenset(),
) -> None:
    """Replace a chain of attributes, or move what binds the name that it starts with."""
    first = root(node)
    bound = program.paths(first)
    if not bound:
        return  # an attribute of a class, which moves where it is bound
    if not all(map(verdicts.moves_whole, bound)):
        finding.edits[node] = replaced_by(new)
    elif isinstance(first, cst.Name):
        for binding in program.bindings(first):
            known = binding in seen  # `a = b` and `b = a`
            if not known and not is_guarded(program, finding, binding):
                _move(program, finding, binding, seen | {binding})


def _move(
    program: Program,
    finding: Finding,
    binding: cst.CSTNode,
    seen: frozenset[cst.CSTNode],
) -> None:
    """Move an import, or the expression of an alias, that binds a name."""
    if isinstance(binding, cst.ImportAlias):
        path, statement = binding.evaluated_name, program.parent(binding)
        if isinstance(statement, cst.ImportFrom):
            path = f"{imported_module(statement)}.{path}"
        if new := _replacement(program, path):
            finding.moved[binding] = new
    elif isinstance(binding, cst.BaseExpression):
        paths = program.paths(binding)
        new = _replacement(program, *paths) if len(paths) == 1 else None
        if new:
            _edit(program, finding, binding, new, seen)


def _replacement(program: Program, path: str) -> str | None:
    verdict = program.verdict(path)
    return verdict.replacement if verdict else None
