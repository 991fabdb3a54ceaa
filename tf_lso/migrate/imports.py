"""Apply the fixes to LibCST's tree: replace expressions and change imports."""

from collections.abc import Mapping
from typing import Any

import libcst as cst
import libcst.matchers as m

from tf_lso.migrate.nodes import bound_name, imported_names


class Apply(cst.CSTTransformer):
    """Applies edits: each replaces an expression, an imported name, or a keyword."""

    def __init__(self, edits: Mapping[cst.CSTNode, str]) -> None:
        self.edits = edits
        self._comments: list[Any] = []

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        """Apply the edit for a node, after the edits for its children have been applied."""
        done: Any = super().on_leave(original_node, updated_node)
        new = self.edits.get(original_node)
        if new is None or isinstance(original_node, cst.ImportAlias):
            # The methods for import statements below change imported names.
            return done
        if isinstance(original_node, cst.Arg):
            return done.with_changes(keyword=cst.Name(new))
        expression = cst.parse_expression(new)
        return expression.with_changes(lpar=done.lpar, rpar=done.rpar)

    def leave_Import(
        self, original_node: cst.Import, updated_node: cst.Import
    ) -> cst.Import:
        """Change an import such as `import tensorflow.keras.mixed_precision as mp`."""
        names = []
        for old, new in zip(original_node.names, updated_node.names):
            if old in self.edits:
                # Without `as`, `import a.b` binds only the package `a`. It becomes `import a`,
                # because separate edits replace all uses of `a.b`.
                path = self.edits[old] if old.asname else bound_name(old)
                new = new.with_changes(name=cst.parse_expression(path))
            names.append(new)
        return updated_node.with_changes(names=names)

    def leave_ImportFrom(
        self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom
    ) -> cst.ImportFrom | cst.FlattenSentinel[cst.ImportFrom]:
        """Rewrite a `from` import so that it imports its old names from tf_lso."""
        names = zip(imported_names(original_node), imported_names(updated_node))
        kept = [new for old, new in names if old not in self.edits]
        moved = [old for old in imported_names(original_node) if old in self.edits]
        if not moved:
            return updated_node
        # One module of tf_lso replaces all old names of an old module.
        path = self.edits[moved[0]].rpartition(".")[0]
        module: Any = cst.parse_expression(path)
        if not kept:
            return updated_node.with_changes(module=module)
        self._comments += [c for alias in moved for c in m.findall(alias, m.Comment())]
        first = updated_node.with_changes(names=_ended(updated_node, kept))
        added = cst.ImportFrom(module, [_alone(alias) for alias in moved])
        return cst.FlattenSentinel([first, added])

    def leave_SimpleStatementLine(
        self,
        original_node: cst.SimpleStatementLine,
        updated_node: cst.SimpleStatementLine,
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.SimpleStatementLine]:
        """Put each new import on its own line if the old import was alone on its line."""
        above = [cst.EmptyLine(comment=comment) for comment in self._comments]
        self._comments = []
        line = updated_node.with_changes(
            leading_lines=[*updated_node.leading_lines, *above]
        )
        if len(original_node.body) > 1:
            return line
        first, *others = line.body
        lines = [cst.SimpleStatementLine([other]) for other in others]
        return cst.FlattenSentinel([line.with_changes(body=[first]), *lines])


def _ended(
    statement: cst.ImportFrom, names: list[cst.ImportAlias]
) -> list[cst.ImportAlias]:
    """Return `names` without a trailing comma, which needs parentheses around the names."""
    if statement.lpar:
        return names
    return [*names[:-1], names[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)]


def _alone(alias: cst.ImportAlias) -> cst.ImportAlias:
    """Return a copy of an imported name without the comments, spaces and comma around it."""
    name = alias.evaluated_alias
    asname = cst.AsName(cst.Name(name)) if name else None
    return cst.ImportAlias(cst.Name(alias.evaluated_name), asname)
