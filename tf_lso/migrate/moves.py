"""Add to a finding the edits that fix the use of an old name.

A use such as `mp.Policy` may begin with a name that an import or an assignment has bound to an
old module. Then the edits change this import or assignment. Otherwise the edits change the use
itself.
"""

import libcst as cst

from tf_lso.migrate import verdicts
from tf_lso.migrate.findings import Finding
from tf_lso.migrate.nodes import root
from tf_lso.migrate.program import Program


def fix(program: Program, finding: Finding, node: cst.CSTNode) -> None:
    """Set a finding's fix, and add the edits that replace the expression `node`."""
    finding.fix = finding.verdict.replacement
    _edit(program, finding, node, finding.fix)


def _edit(program: Program, finding: Finding, node: cst.CSTNode, new: str) -> None:
    """Add to a finding the edits that fix a chain of attributes such as `mp.Policy`.

    If the program has bound the first name of the chain to an old module or class, the edits
    change the import or assignment that binds the name. Otherwise an edit replaces the whole
    chain by `new`. An example is `C.mp.Policy`, where `C` is a class of the program.
    """
    first = root(node)
    if verdicts.moves_whole(program.path(first)):
        for binding in program.bindings(first):
            _move(program, finding, binding)
    else:
        finding.edits[node] = new


def _move(program: Program, finding: Finding, binding: cst.CSTNode) -> None:
    """Add to a finding the edits that make a binding refer to tf_lso.

    The binding is an imported name, or the expression that the program assigns to a name.
    """
    verdict = verdicts.of_path(program.path(binding), target=program.target)
    if verdict and isinstance(binding, cst.ImportAlias):
        finding.edits[binding] = verdict.replacement
    elif verdict:
        _edit(program, finding, binding, verdict.replacement)
