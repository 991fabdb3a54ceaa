"""The fix of an old name: replace it where it stands, or move what binds it."""

import libcst as cst

from tf_lso.migrate import guards, verdicts
from tf_lso.migrate.findings import Finding
from tf_lso.migrate.nodes import imported_module, root
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


def fix(program: Program, finding: Finding, node: cst.CSTNode) -> None:
    """Give a finding at an expression its fix, unless the program guards it."""
    new = finding.verdict.replacement
    if new and not is_guarded(program, finding, node):
        finding.fix = new
        _edit(program, finding, node, new)


def _edit(program: Program, finding: Finding, node: cst.CSTNode, new: str) -> None:
    """Replace a chain of attributes where it stands.

    If it starts with a name that stands for an old module or class itself, the import or
    the alias that binds this name moves instead.
    """
    first = root(node)
    path, bindings = program.path(first), list(program.bindings(first))
    if not path:
        return  # an attribute of a class, which moves where it is bound
    if not verdicts.moves_whole(path):
        finding.edits[node] = new
    elif not any(is_guarded(program, finding, binding) for binding in bindings):
        for binding in bindings:
            _move(program, finding, binding)


def _move(program: Program, finding: Finding, binding: cst.CSTNode) -> None:
    """Move an import, or the expression of an alias, that binds a name."""
    path = program.path(binding)
    if isinstance(binding, cst.ImportAlias):
        path, statement = binding.evaluated_name, program.parent(binding)
        if isinstance(statement, cst.ImportFrom):
            path = f"{imported_module(statement)}.{path}"
    verdict = verdicts.of_path(path, target=program.target)
    if verdict and isinstance(binding, cst.ImportAlias):
        finding.edits[binding] = verdict.replacement
    elif verdict:
        _edit(program, finding, binding, verdict.replacement)
