"""Adds to a plan what it needs of imports: moved names, `import tf_lso`, `install()`."""

import ast
import collections
import re
from collections.abc import Container

from tf_lso.source.fixes import Plan
from tf_lso.source.renaming import New
from tf_lso.source.scopes import CLASS, Imported, Place, Scope
from tf_lso.source.syntax import IMPORT_STATEMENTS
from tf_lso.source.texts import Edit, Text, applied

# --- One import statement.

_MODULE = re.compile(r"from[\s\\]+(.+?)(?=[\s\\]+import\b)", re.DOTALL)
_COMMENT = re.compile(r"#[^\r\n]*")
# A name with its comma, and what stands behind it in its line.
_OWN = re.compile(r"(?:#[^\n]*|[^,#])*,?[^\n]*\n?")


def rewritten(
    text: Text, node: ast.Import | ast.ImportFrom, moves: dict[ast.alias, New]
) -> tuple[str, list[str]]:
    """Return what takes the place of an import, and the statements that follow it."""
    source, begin = text.of(node), text.start(node)
    if isinstance(node, ast.Import):  # `import a.b` binds `a`, and keeps that
        edits = [
            Edit(
                text.start(alias) - begin,
                text.end(alias) - begin,
                f"{way.module} as {alias.asname}"
                if alias.asname
                else alias.name.split(".")[0],
            )
            for alias, way in moves.items()
        ]
        return applied(source, edits), []
    # All old names of one module have the same new module.
    (path,) = {
        way.module.rpartition(".")[0] if way.is_module else way.module
        for way in moves.values()
    }
    if len(moves) == len(node.names):
        return _MODULE.sub(f"from {path}", source, count=1), []
    first, comments = _without(text, node, moves)
    names = (f"{a.name} as {a.asname}" if a.asname else a.name for a in moves)
    return first, ["  ".join([f"from {path} import {', '.join(names)}", *comments])]


def _without(
    text: Text, node: ast.ImportFrom, moves: Container[ast.alias]
) -> tuple[str, list[str]]:
    """Return an import without the names that move, and the comments that go with them.

    A comment behind a name goes with the name. A comment on its own line stays.
    """
    source, begin = text.of(node), text.start(node)
    starts = [text.start(alias) - begin for alias in node.names]
    left, comments, piece = source[: starts[0]], [], ""
    closing = source.rindex(")") if "(" in left else len(source)
    for alias, start, stop in zip(node.names, starts, [*starts[1:], closing]):
        piece = source[start:stop]
        if alias not in moves:
            left += piece
            continue
        own = _OWN.match(piece).group()  # type: ignore[union-attr]
        comments += _COMMENT.findall(own)
        if "#" in piece[len(own) :]:
            left = left.rstrip(" \t\f") + piece[len(own) :]
    if node.names[-1] in moves:
        left = left.rstrip(" \t\f\r\n\\")
        tail = re.search(r"(?:[\r\n][ \t]*)?\Z", piece).group()  # type: ignore[union-attr]
        if tail or "#" in re.split(r"[\r\n]", left)[-1]:
            left += text.newline() + tail[1:]
        else:
            left = left.removesuffix(",")
    return left + source[closing:], comments


# --- All that changes in the statements of a program.


class Statements:
    """The statements of a plan that change, and the lines before and after them."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.top = {s: cell for cell, tree in plan.trees.items() for s in tree.body}
        sites = (s for s in plan.program.sites if isinstance(s.node, IMPORT_STATEMENTS))
        self.cells = {**self.top, **{site.node: site.cell for site in sites}}
        # What takes the place of a statement, and the lines before and after it.
        self.first: dict[ast.stmt, str] = {}
        self.before: dict[ast.stmt, list[str]] = {}
        self.after = collections.defaultdict[ast.stmt, list[str]](list)

    def add(self, install_at: ast.stmt | None, like: str | None, cleans: bool) -> None:
        """Add the edits of the statements to the plan's own.

        `install()` is to be called before `install_at`, if that is given. `cleans` says
        whether imports that nothing in the file uses any more go.
        """
        for site, moves in self.plan.renaming.imports.items():
            text = self.plan.texts[site.cell]
            self.first[site.node], self.after[site.node] = rewritten(
                text, site.node, moves
            )
        name = self.plan.root
        line = "import tf_lso" if name == "tf_lso" else f"import tf_lso as {name}"
        if install_at is not None:
            call = f'{name}.install(like="{like}")' if like else f"{name}.install()"
            self.before[install_at] = [line, "", call, ""]
        self._bind(line, install_at)
        if cleans:
            self._remove_unused()
        for node in {**self.before, **self.first, **self.after}:
            self._edit(node)

    def _bind(self, line: str, install_at: ast.stmt | None) -> None:
        """Put `import tf_lso` behind the imports of the rewritten names."""
        places: dict[ast.stmt, None] = {}  # as an ordered set
        at_top = False
        for scope, refs in self.plan.needs:
            origins = {
                ref.origin: sees(scope, ref.stops[0].scope)
                for ref in refs
                if ref.origin is not None and not self.plan.moved(ref)
            }
            if origins and all(origins.values()):
                places.update(dict.fromkeys(filter(None, origins)))
            else:
                at_top = True
        bound = [self._place(node) for node in places if node in self.top]
        known = [
            self._place(binding.value.node)
            for binding in self.plan.program.module.names.get(self.plan.root, ())
            if isinstance(binding.value, Imported) and binding.value.node in self.top
        ]
        if install_at is not None:
            known.append((*self._place(install_at)[:2], -1))
        if at_top and not known:
            body = next(tree.body for tree in self.plan.trees.values() if tree.body)
            later = (s for i, s in enumerate(body) if not _is_prologue(s, i))
            self.before[next(later, body[-1])] = [line]
            return
        first = min([*bound, *known], default=None)
        for node in places:
            if first is None or self._place(node) <= first:
                self.after[node].append(line)

    def _place(self, node: ast.stmt) -> Place:
        return self.cells[node] or 0, node.lineno, node.col_offset

    def _remove_unused(self) -> None:
        """Take out imports whose names only the replaced chains used."""
        text = self.plan.texts[None]
        new = applied(text.text, self.plan.edits.get(None, ()))
        refs = [ref for _, refs in self.plan.needs for ref in refs]
        for node in dict.fromkeys(ref.origin for ref in refs):
            if node in self.top and self.after.get(node):  # else nothing replaces it
                name = node.names[0].asname or node.names[0].name.split(".")[0]
                uses = re.findall(rf"(?<![\w.]){re.escape(name)}\b", new)
                # A comment may say that the unused import is wanted.
                if len(node.names) == len(uses) == 1 and "#" not in text.after(node):
                    self.first[node] = self.after[node].pop(0)

    def _edit(self, node: ast.stmt) -> None:
        """Note the edits of one statement. Where others share its line, they still do."""
        cell = self.cells[node]
        text = self.plan.texts[cell]
        newline, indent, rest = text.newline(), text.before(node), text.after(node)
        start, end = text.start(node), text.end(node)
        for decorator in getattr(node, "decorator_list", ())[:1]:
            start = text.start(decorator) - 1
        before, after = self.before.get(node, ()), self.after[node]
        if indent.strip():
            lines = "".join(f"{line}; " for line in before if line)
        else:
            lines = "".join(f"{line}{newline}{indent}" for line in before)
        self.plan.edit(cell, start, start, lines)
        if node in self.first:
            self.plan.edit(cell, start, end, self.first[node])
        if indent.strip() or not re.fullmatch(r"\s*(#.*)?", rest):
            lines = "".join(f"; {_on_one_line(line, newline)}" for line in after)
        else:
            end += len(rest)
            lines = "".join(f"{newline}{indent}{line}" for line in after)
        self.plan.edit(cell, end, end, lines)


def _on_one_line(statement: str, newline: str) -> str:
    """Return a statement that others may follow. A comment goes into parentheses."""
    plain, mark, comment = statement.partition("  #")
    if not mark:
        return plain
    start, names = plain.split(" import ")
    return f"{start} import ({names}{mark}{comment}{newline})"


def _is_prologue(statement: ast.stmt, index: int) -> bool:
    """Whether nothing may stand before a statement: docstrings, `__future__`."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return index == 0
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def sees(scope: Scope, outer: Scope | None) -> bool:
    """Whether code in a scope sees the names that `outer` binds."""
    if outer is None or outer not in scope.outwards():
        return False
    return outer is scope or outer.kind != CLASS
