"""Add to a finding the edits that fix the use of an old name."""

import libcst as cst

from tf_lso.migrate import consequences
from tf_lso.migrate.findings import Finding
from tf_lso.migrate.nodes import root
from tf_lso.migrate.program import Program


def fix(program: Program, finding: Finding, node: cst.CSTNode) -> None:
    """Set a finding's fix, and the edits that make the expression `node` refer to tf_lso."""
    finding.fix = finding.consequence.replacement
    finding.edits = _edits(program, node, finding.fix)


def _edits(program: Program, node: cst.CSTNode, new: str) -> dict[cst.CSTNode, str]:
    """Return the edits that make a dotted name such as `mp.Policy` refer to `new`.

    The first part of the dotted name, such as `mp`, may be bound to an old module or class. If
    so, the edits change the imports or assignments that bind it. Otherwise an edit replaces the
    whole dotted name.
    """
    first = root(node)
    if not consequences.moves_whole(program.path(first)):
        return {node: new}
    edits: dict[cst.CSTNode, str] = {}
    for binding in program.bindings(first):
        consequence = consequences.of_path(program.path(binding), target=program.target)
        if consequence and isinstance(binding, cst.ImportAlias):
            edits[binding] = consequence.replacement
        elif consequence:
            edits |= _edits(program, binding, consequence.replacement)
    return edits
