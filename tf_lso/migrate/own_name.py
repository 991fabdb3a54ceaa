"""Whether a program has the name tf_lso for the package, or for something else."""

from collections.abc import Iterable

import libcst as cst
from libcst import metadata as md

from tf_lso.migrate.nodes import bound_name
from tf_lso.migrate.program import Program

_NAME = "tf_lso"


def is_shadowed(program: Program) -> bool:
    """Whether something else than the package has its name, in whatever scope."""
    bound = (
        assignment
        for scope in program.scopes
        for assignment in scope.assignments
        if assignment.name.partition(".")[0] == _NAME
    )
    others = any(not _is_import(assignment) for assignment in bound)
    return _NAME in program.facts.captured or others


def _is_import(assignment: md.BaseAssignment) -> bool:
    """Whether an assignment is `import tf_lso` or `import tf_lso.keras`."""
    node = getattr(assignment, "node", None)
    return isinstance(node, cst.Import) and all(
        alias.evaluated_name.partition(".")[0] == _NAME
        for alias in node.names
        if bound_name(alias) == _NAME
    )


def is_imported_before(program: Program, nodes: Iterable[cst.CSTNode]) -> bool:
    """Whether a module imports the package, in any case, before some of its nodes."""
    first = min(map(program.line, nodes))
    return any(
        bound_name(alias) == _NAME
        for line in program.module.body
        if isinstance(line, cst.SimpleStatementLine) and program.line(line) < first
        for statement in line.body
        if isinstance(statement, cst.Import)
        for alias in statement.names
    )
