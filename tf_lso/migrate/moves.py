"""Fix an old name: change the use, or the import or alias that binds the name."""

import libcst as cst

from tf_lso.migrate import guards, verdicts
from tf_lso.migrate.findings import Finding
from tf_lso.migrate.nodes import root
from tf_lso.migrate.program import Program

_GUARDED = "{}: it is left to tf_lso.install()."


def is_guarded(program: Program, finding: Finding, node: cst.CSTNode) -> bool:
    """Return whether a guard is around a node. If there is one, remove the finding's fix."""
    guard = guards.guard(program, node)
    if guard:
        finding.guarded = True
        finding.leave(_GUARDED.format(guard))
        if finding.is_problem:
            finding.needs_install = "names below a guard"
    return bool(guard)


def fix(program: Program, finding: Finding, node: cst.CSTNode) -> None:
    """Set the fix of a finding at an expression, unless a guard is around the expression."""
    new = finding.verdict.replacement
    if new and not is_guarded(program, finding, node):
        finding.fix = new
        _edit(program, finding, node, new)


def _edit(program: Program, finding: Finding, node: cst.CSTNode, new: str) -> None:
    """Replace a chain of attributes.

    If the first name of the chain is itself bound to an old module or class, the import or
    the alias that binds this name is changed instead. If the first name is a class of the
    program, as in `C.mp.Policy`, the chain is replaced too.
    """
    first = root(node)
    path, bindings = program.path(first), list(program.bindings(first))
    if not verdicts.moves_whole(path):
        finding.edits[node] = new
    elif not any(is_guarded(program, finding, binding) for binding in bindings):
        for binding in bindings:
            _move(program, finding, binding)


def _move(program: Program, finding: Finding, binding: cst.CSTNode) -> None:
    """Change an import, or the expression of an alias, so that it names tf_lso."""
    verdict = verdicts.of_path(program.path(binding), target=program.target)
    if verdict and isinstance(binding, cst.ImportAlias):
        finding.edits[binding] = verdict.replacement
    elif verdict:
        _edit(program, finding, binding, verdict.replacement)
