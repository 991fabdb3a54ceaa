"""Applies the fixes to LibCST's tree: edited nodes, moved and unused imports."""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple

import libcst as cst
import libcst.matchers as m

from tf_lso.migrate.findings import Edit
from tf_lso.migrate.nodes import bound_name, dotted, root
from tf_lso.migrate.program import Program

_Lines = (
    cst.SimpleStatementLine
    | cst.FlattenSentinel[cst.SimpleStatementLine]
    | cst.RemovalSentinel
)


class _Part(NamedTuple):
    """One of the statements that an import becomes, and the comments of its names."""

    statement: cst.BaseSmallStatement
    comments: tuple[cst.Comment, ...] = ()


class Apply(cst.CSTTransformer):
    """Makes the edits, and gives moved names import statements of their own."""

    def __init__(
        self,
        edits: Mapping[cst.CSTNode, Edit],
        moved: Mapping[cst.ImportAlias, str],
        removed: Set[cst.ImportAlias] = frozenset(),
    ) -> None:
        self.edits, self.moved, self.removed = edits, moved, removed

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        """Make the edit of a node, after those of its children."""
        done = super().on_leave(original_node, updated_node)
        edit = self.edits.get(original_node)
        return edit(done) if edit else done

    def leave_Import(
        self, original_node: cst.Import, updated_node: cst.Import
    ) -> cst.Import | cst.RemovalSentinel:
        """Move `import tensorflow.keras.mixed_precision as mp`."""
        names = []
        for old, new in zip(original_node.names, updated_node.names):
            if old in self.removed:
                continue
            if old in self.moved:
                # Without `as` it binds the package, and the chains are replaced.
                path = self.moved[old] if old.asname else bound_name(old)
                new = new.with_changes(name=dotted(path))
            names.append(new)
        if not names:
            return cst.RemoveFromParent()
        names[-1] = names[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return updated_node.with_changes(names=names)

    def leave_SimpleStatementLine(
        self,
        original_node: cst.SimpleStatementLine,
        updated_node: cst.SimpleStatementLine,
    ) -> _Lines:
        """Move names of a `from` import; a new statement gets a line of its own."""
        parts = self._parts(original_node.body, updated_node.body)
        if not parts:
            return cst.RemoveFromParent()
        if len(original_node.body) > 1 or len(parts) == 1:
            above = [_own_line(comment) for part in parts for comment in part.comments]
            return updated_node.with_changes(
                leading_lines=[*updated_node.leading_lines, *above], body=_joined(parts)
            )
        first, *others = parts
        lines = [updated_node.with_changes(body=[first.statement])]
        for statement, comments in others:
            line = cst.SimpleStatementLine([statement])
            if comments:
                line = cst.SimpleStatementLine(
                    [statement],
                    [_own_line(comment) for comment in comments[1:]],
                    cst.TrailingWhitespace(cst.SimpleWhitespace("  "), comments[0]),
                )
            lines.append(line)
        return cst.FlattenSentinel(lines)

    def leave_SimpleStatementSuite(
        self,
        original_node: cst.SimpleStatementSuite,
        updated_node: cst.SimpleStatementSuite,
    ) -> cst.SimpleStatementSuite:
        """Move names of a `from` import that stands behind a colon."""
        parts = self._parts(original_node.body, updated_node.body)
        return updated_node.with_changes(body=_joined(parts))

    def _parts(
        self,
        old: Sequence[cst.BaseSmallStatement],
        new: Sequence[cst.BaseSmallStatement],
    ) -> list[_Part]:
        parts: list[_Part] = []
        for before, after in zip(old, new):
            if isinstance(before, cst.ImportFrom) and isinstance(after, cst.ImportFrom):
                parts += self._of_import(before, after)
            else:
                parts.append(_Part(after))
        return parts

    def _of_import(self, before: cst.ImportFrom, after: cst.ImportFrom) -> list[_Part]:
        """Return the statements that a `from` import becomes."""
        if isinstance(before.names, cst.ImportStar):
            return [_Part(after)]
        gone = {*self.moved, *self.removed}
        kept = [alias for alias in before.names if alias not in gone]
        moved: dict[str, list[cst.ImportAlias]] = {}
        for alias in before.names:
            if alias in self.moved:
                module = self.moved[alias].rpartition(".")[0]
                moved.setdefault(module, []).append(alias)
        if len(kept) == len(before.names):
            return [_Part(after)]
        if not kept and len(moved) == 1:
            return [_Part(after.with_changes(module=dotted(next(iter(moved)))))]
        parts = [_Part(after.with_changes(names=_ended(after, kept)))] if kept else []
        for module, names in moved.items():
            new = cst.ImportFrom(dotted(module), [_alone(name) for name in names])
            parts.append(_Part(new, _comments(names)))
        return parts


def _joined(parts: list[_Part]) -> list[cst.BaseSmallStatement]:
    return [part.statement for part in parts]


def _own_line(comment: cst.Comment) -> cst.EmptyLine:
    return cst.EmptyLine(comment=comment)


def _ended(
    statement: cst.ImportFrom, names: list[cst.ImportAlias]
) -> list[cst.ImportAlias]:
    """Return the names that stay; only parentheses allow a comma at the end."""
    if statement.lpar:
        return names
    return [*names[:-1], names[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)]


def _alone(alias: cst.ImportAlias) -> cst.ImportAlias:
    """Return a name without the layout around it."""
    name = alias.evaluated_alias
    asname = cst.AsName(cst.Name(name)) if name else None
    return cst.ImportAlias(cst.Name(alias.evaluated_name), asname)


def _comments(names: list[cst.ImportAlias]) -> tuple[cst.Comment, ...]:
    """Return the comments around names in a list of several lines."""
    found = [comment for name in names for comment in m.findall(name, m.Comment())]
    return tuple(one for one in found if isinstance(one, cst.Comment))


# --- Imports that are no longer used.


def unused(
    program: Program, edited: Iterable[cst.CSTNode], words: Set[str] = frozenset()
) -> set[cst.ImportAlias]:
    """Return the imports that only the replaced chains have used.

    They stand at the top level, alone on their line, without a comment that would go
    with them.

    Args:
      program: the program.
      edited: what the fixes replace.
      words: names that text which is not parsed may use.
    """
    words = words | program.facts.words | program.facts.in_strings
    roots = {root(node) for node in edited if isinstance(node, cst.BaseExpression)}
    found = set[cst.ImportAlias]()
    for first in roots:
        if not isinstance(first, cst.Name):
            continue
        if first.value in words or not _uses(program, first.value) <= roots:
            continue
        for assignment in program.imports(first):
            found |= {
                alias
                for alias in getattr(assignment.node, "names", ())
                if bound_name(alias) == first.value and _may_go(program, alias)
            }
    return found


def _uses(program: Program, name: str) -> set[cst.BaseExpression]:
    """Return all that a program writes by a name, in whatever scope.

    `import tensorflow.keras` and `import tensorflow as tensorflow` may bind one name, and
    LibCST divides its uses among them.
    """
    found = set[cst.BaseExpression]()
    for node in program.facts.names.get(name, ()):
        parent = program.parent(node)
        is_attribute = isinstance(parent, cst.Attribute) and parent.attr is node
        is_keyword = isinstance(parent, cst.Arg) and parent.keyword is node
        above = (type(parent) for _, parent in program.parents(node))
        if not (is_attribute or is_keyword or cst.ImportAlias in above):
            found.add(node)
    return found


def _may_go(program: Program, alias: cst.ImportAlias) -> bool:
    statement = program.parent(alias)
    line = program.parent(statement) if statement else None
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) > 1:
        return False
    is_top = isinstance(program.parent(line), cst.Module)
    return is_top and not m.findall(line, m.Comment())
