"""Add to a finding the edits that fix the use of an old name.

A use such as `mp.Policy` may begin with a name that an import or an assignment has bound to an
old module. Then the edits change this import or assignment. Otherwise the edits change the use
itself.
"""

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
    """Return whether a node is inside a guard. If so, remove the fix of the finding.

    A guard is a condition or an `except` clause, as the module `guards` explains.
    """
    guard = guards.guard(program, node)
    if guard:
        finding.guarded = True
        finding.leave(_GUARDED.format(guard))
        if finding.is_problem or _asks_for_gone(program, node):
            finding.needs_install = "names below a guard"
    return bool(guard)


def _asks_for_gone(program: Program, node: cst.CSTNode) -> bool:
    """Return whether `hasattr` or `getattr` looks up a missing old name in the module `node`.

    In `hasattr(tf.mixed_precision, "experimental")`, the node is `tf.mixed_precision`.
    """
    argument = program.parent(node)
    call: Any = argument and program.parent(argument)
    if not call or not m.matches(call, _ASKS) or call.args[0] is not argument:
        return False
    path = f"{program.path(node)}.{literal(call.args[1].value)}"
    known = verdicts.of_path(path, target=program.target)
    return known is not None and not verdicts.is_there(path, program.target)


def fix(program: Program, finding: Finding, node: cst.CSTNode) -> None:
    """Set a finding's fix and edits, unless the expression `node` is inside a guard."""
    new = finding.verdict.replacement
    if new and not is_guarded(program, finding, node):
        finding.fix = new
        _edit(program, finding, node, new)


def _edit(program: Program, finding: Finding, node: cst.CSTNode, new: str) -> None:
    """Add to a finding the edits that fix a chain of attributes such as `mp.Policy`.

    If the program has bound the first name of the chain to an old module or class, the edits
    change the import or assignment that binds the name. Otherwise an edit replaces the whole
    chain by `new`. An example is `C.mp.Policy`, where `C` is a class of the program.
    """
    first = root(node)
    path, bindings = program.path(first), list(program.bindings(first))
    if not verdicts.moves_whole(path):
        finding.edits[node] = new
    elif not any(is_guarded(program, finding, binding) for binding in bindings):
        for binding in bindings:
            _move(program, finding, binding)


def _move(program: Program, finding: Finding, binding: cst.CSTNode) -> None:
    """Add to a finding the edits that make a binding refer to tf_lso.

    The binding is an imported name, or the expression that the program assigns to a name.
    """
    verdict = verdicts.of_path(program.path(binding), target=program.target)
    if verdict and isinstance(binding, cst.ImportAlias):
        finding.edits[binding] = verdict.replacement
    elif verdict:
        _edit(program, finding, binding, verdict.replacement)
