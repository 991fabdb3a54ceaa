"""Fix an old name: change the use, or the import or alias that binds the name."""

from typing import Any

import libcst as cst
import libcst.matchers as m

from tf_lso.migrate import guards, verdicts
from tf_lso.migrate.findings import Finding
from tf_lso.migrate.nodes import literal, root
from tf_lso.migrate.program import Program

_ASKS = m.Call(
    func=m.Name("hasattr") | m.Name("getattr"),
    args=[m.Arg(), m.Arg(), m.ZeroOrMore()],
)
_GUARDED = "{}: it is left to tf_lso.install()."


def is_guarded(program: Program, finding: Finding, node: cst.CSTNode) -> bool:
    """Return whether a guard is around a node. If there is one, remove the finding's fix."""
    guard = guards.guard(program, node)
    if guard:
        finding.guarded = True
        finding.leave(_GUARDED.format(guard))
        if finding.is_problem or _asks_for_gone(program, node):
            finding.needs_install = "names below a guard"
    return bool(guard)


def _asks_for_gone(program: Program, node: cst.CSTNode) -> bool:
    """Return whether a `hasattr` or `getattr` asks a module for an old name that is gone."""
    argument = program.parent(node)
    call: Any = argument and program.parent(argument)
    if not call or not m.matches(call, _ASKS) or call.args[0] is not argument:
        return False
    path = f"{program.path(node)}.{literal(call.args[1].value)}"
    known = verdicts.of_path(path, target=program.target)
    return known is not None and not verdicts.is_there(path, program.target)


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
