"""Apply the fixes to LibCST's tree: replace expressions and change imports."""

from collections.abc import Mapping, Sequence
from typing import Any

import libcst as cst
import libcst.matchers as m

from tf_lso.migrate.nodes import bound_name, dotted, imported_names

_Lines = cst.SimpleStatementLine | cst.FlattenSentinel[cst.SimpleStatementLine]


class Apply(cst.CSTTransformer):
    """A transformer of LibCST's tree that applies edits and rewrites import statements.

    An edit replaces an expression or an imported name by a new dotted name. If the node is an
    argument of a call, the edit replaces the keyword of the argument.
    """

    def __init__(self, edits: Mapping[cst.CSTNode, str]) -> None:
        self.edits = edits

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        """Apply the edit for a node, after the edits for its children have been applied."""
        done: Any = super().on_leave(original_node, updated_node)
        new = self.edits.get(original_node)
        if new is None or isinstance(original_node, cst.ImportAlias):
            # Imported names are changed by the methods for import statements below.
            return done
        if isinstance(original_node, cst.Arg):
            return done.with_changes(keyword=cst.Name(new))
        return dotted(new).with_changes(lpar=done.lpar, rpar=done.rpar)

    def leave_Import(
        self, original_node: cst.Import, updated_node: cst.Import
    ) -> cst.Import:
        """Change an import such as `import tensorflow.keras.mixed_precision as mp`."""
        names = []
        for old, new in zip(original_node.names, updated_node.names):
            if old in self.edits:
                # Without `as`, `import a.b` binds only the package `a`. So the new import
                # imports just the package. Separate edits replace all uses of `a.b`.
                path = self.edits[old] if old.asname else bound_name(old)
                new = new.with_changes(name=dotted(path))
            names.append(new)
        return updated_node.with_changes(names=names)

    def leave_SimpleStatementLine(
        self,
        original_node: cst.SimpleStatementLine,
        updated_node: cst.SimpleStatementLine,
    ) -> _Lines:
        """Rewrite the `from` imports in a line, so that old names are imported from tf_lso.

        If the line has only one statement, each new import statement gets a line of its own.
        """
        statements, comments = self._moved(original_node.body, updated_node.body)
        above = [*updated_node.leading_lines, *comments]
        if len(original_node.body) > 1:
            return updated_node.with_changes(leading_lines=above, body=statements)
        first, *others = statements
        line = updated_node.with_changes(leading_lines=above, body=[first])
        return cst.FlattenSentinel(
            [line, *(cst.SimpleStatementLine([other]) for other in others)]
        )

    def leave_SimpleStatementSuite(
        self,
        original_node: cst.SimpleStatementSuite,
        updated_node: cst.SimpleStatementSuite,
    ) -> cst.SimpleStatementSuite:
        """Rewrite the `from` imports in a one-line block, such as `try: from a import b`."""
        statements, _ = self._moved(original_node.body, updated_node.body)
        return updated_node.with_changes(body=statements)

    def _moved(
        self,
        old: Sequence[Any],
        new: Sequence[Any],
    ) -> tuple[list[Any], list[cst.EmptyLine]]:
        """Return the statements of a line with their `from` imports rewritten.

        Args:
          old: the statements before any edit.
          new: the same statements after the edits for their children.

        Returns:
          A tuple of the list of statements, and a list of comments. The comments were next to
          imported names in the old statements, and the new statements do not contain them.
        """
        statements: list[Any] = []
        comments: list[cst.EmptyLine] = []
        for before, after in zip(old, new):
            moved = self._moved_names(before)
            if not moved:
                statements.append(after)
                continue
            # The first name determines the new module for the whole statement, because one
            # module of tf_lso replaces all old names of an old module.
            module = dotted(self.edits[moved[0]].rpartition(".")[0])
            names = zip(imported_names(before), imported_names(after))
            kept = [name for old, name in names if old not in self.edits]
            if not kept:
                statements.append(after.with_changes(module=module))
                continue
            statements.append(after.with_changes(names=_ended(after, kept)))
            statements.append(cst.ImportFrom(module, [_alone(name) for name in moved]))
            found: list[Any] = [c for n in moved for c in m.findall(n, m.Comment())]
            for comment in found:
                comments.append(cst.EmptyLine(comment=comment))
        return statements, comments

    def _moved_names(self, node: cst.BaseSmallStatement) -> list[cst.ImportAlias]:
        """Return the names in a `from` import that must be imported from tf_lso instead."""
        names = imported_names(node) if isinstance(node, cst.ImportFrom) else []
        return [alias for alias in names if alias in self.edits]


def _ended(
    statement: cst.ImportFrom, names: list[cst.ImportAlias]
) -> list[cst.ImportAlias]:
    """Return `names` in a form in which they can end the `from` import `statement`.

    Without parentheses, a comma after the last name would be a syntax error. So the function
    removes this comma.
    """
    if statement.lpar:
        return names
    return [*names[:-1], names[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)]


def _alone(alias: cst.ImportAlias) -> cst.ImportAlias:
    """Return a copy of an imported name without the comments, spaces and comma around it."""
    name = alias.evaluated_alias
    asname = cst.AsName(cst.Name(name)) if name else None
    return cst.ImportAlias(cst.Name(alias.evaluated_name), asname)
