"""Where statements are added, taken away and replaced in a text."""

import ast
import bisect
import re

from tf_lso.programs.scopes import CLASS, Imported, Scope


class Inserts:
    """The statements of a plan that change, and the lines that follow them.

    Args:
      plan: the `Plan`; its edits of names are complete.
    """

    def __init__(self, plan) -> None:
        self.plan = plan
        self.trees = plan.trees
        self.cells = {
            id(site.node): site.cell
            for site in plan.program.sites
            if isinstance(site.node, (ast.Import, ast.ImportFrom))
        }
        self.top = {id(s): s for tree in plan.trees.values() for s in tree.body}
        self.after: dict[int, list[str]] = {}  # id of a statement -> lines behind it
        self.nodes: dict[int, ast.stmt] = {}
        self.first: dict[int, str] = {}  # id -> what takes its place, "" for nothing
        self.before: list[tuple[ast.stmt, list[str]]] = []

    def add(self, install_at: ast.stmt | None, keeps_imports: bool) -> None:
        """Adds all that the plan needs to the plan's own edits.

        Args:
          install_at: the statement before which `install()` is to be called, or None.
          keeps_imports: whether imports that nothing uses any more stay.
        """
        for site, moves in self.plan.imports.values():
            self._rewrite(site.node, moves, site.cell)
        name = self.plan.root
        line = "import tf_lso" if name == "tf_lso" else f"import tf_lso as {name}"
        if install_at is not None:
            self.before.append((install_at, [line, "", f"{name}.install()", ""]))
        self._bind(line, install_at)
        if not keeps_imports and list(self.trees) == [None]:
            self._remove_unused()
        self._write()

    def _rewrite(self, node, moves, cell):
        # Here, since it needs LibCST, which no other command does.
        from tf_lso.migrate import statements

        text = self.plan.texts[cell]
        newline = text.newline(text.start(node))
        first, *more = statements.rewritten(text.of(node), node, moves, newline)
        self._note(node, more)
        self.first[id(node)] = first

    def _note(self, node, lines):
        self.nodes[id(node)] = node
        known = self.after.setdefault(id(node), [])
        known.extend(line for line in lines if line not in known)

    # --- `import tf_lso`.

    def _bind(self, line, install_at):
        """Puts the import behind those that the rewritten names came from."""
        places: dict[int, ast.stmt] = {}
        at_top = False
        for need in self.plan.needs:
            origins = [r for r in need.refs if r.origin is not None and not r.moved]
            seen = [r for r in origins if sees(need.scope, r.scope)]
            if seen and len(seen) == len(origins):
                places.update((id(r.origin), r.origin) for r in origins)
            else:
                at_top = True
        known = self._first_import(install_at)
        if at_top and known is None:
            self._at_top(line)
            return
        whole = [n for n in places.values() if id(n) in self.top]
        starts = [self._place(n) for n in whole] + ([known] if known else [])
        first = min(starts, default=None)
        for node in places.values():
            place = self._place(node)
            if known is not None and place > known:
                continue
            if first is None or place <= first:
                self._note(node, [line])

    def _place(self, node):
        cell = self.cells.get(id(node))
        return cell or 0, node.lineno, node.col_offset

    def _first_import(self, install_at):
        """Where `tf_lso` is bound already for all that follows, or None."""
        found = []
        if install_at is not None:
            cell = next(c for c, t in self.trees.items() if install_at in t.body)
            found.append((cell or 0, install_at.lineno, -1))
        for binding in self.plan.program.module.names.get(self.plan.root, ()):
            value = binding.value
            if isinstance(value, Imported) and value.path == "tf_lso":
                if id(value.node) in self.top:
                    found.append(self._place(value.node))
        return min(found, default=None)

    def _at_top(self, line):
        body = next(tree.body for tree in self.trees.values() if tree.body)
        index = 0
        while index < len(body) - 1 and _is_prologue(body[index], index):
            index += 1
        self.before.append((body[index], [line]))

    # --- Imports that nothing needs any more.

    def _remove_unused(self):
        text = self.plan.texts[None]
        origins = {
            id(ref.origin): ref.origin
            for need in self.plan.needs
            for ref in need.refs
            if ref.origin is not None
        }
        replaced = sorted((e.start, e.end) for e in self.plan.edits.get(None, ()))
        for node in origins.values():
            if id(node) not in self.top or len(node.names) != 1:
                continue
            name = node.names[0].asname or node.names[0].name.split(".")[0]
            if self.after.get(id(node)) and _is_unused(text, name, node, replaced):
                self.first[id(node)] = ""

    # --- Edits.

    def _write(self):
        for key, node in self.nodes.items():
            self._replace(node, self.first.get(key), self.after[key])
        for node, lines in self.before:
            self._precede(node, lines)

    def _replace(self, node, first, after):
        cell = self.cells[id(node)]
        text = self.plan.texts[cell]
        start, end = text.start(node), text.end(node)
        if first == "":
            first, *after = after
        if first is not None:
            self.plan.edit(cell, start, end, first)
        after = [line for line in after if line]
        if not after:
            return
        indent, rest, newline = text.before(start), text.after(end), text.newline(end)
        if indent.strip() or not re.fullmatch(r"\s*(#.*)?", rest):
            joined = "".join(f"; {_on_one_line(line, newline)}" for line in after)
            self.plan.edit(cell, end, end, joined)
            return
        place = end + len(rest)
        lines = "".join(f"{newline}{indent}{line}" for line in after)
        self.plan.edit(cell, place, place, lines)

    def _precede(self, node, lines):
        cell = next(c for c, tree in self.trees.items() if node in tree.body)
        text = self.plan.texts[cell]
        first = min([node.lineno, *(d.lineno for d in _decorators(node))])
        start = text.start(node) if first == node.lineno else text.starts[first - 1]
        newline = text.newline(start)
        if text.before(start).strip():
            joined = "".join(f"{line}; " for line in lines if line)
        else:
            joined = "".join(f"{line}{newline}" for line in lines)
        self.plan.edit(cell, start, start, joined)


def _is_unused(text, name, node, replaced):
    """Whether the name stands only in the import itself and where it is replaced."""
    if "#" in text.after(text.end(node)):
        return False  # a comment may say that it is wanted
    own = text.start(node), text.end(node)
    for found in re.finditer(rf"\b{re.escape(name)}\b", text.text):
        place = found.start()
        before = bisect.bisect_right(replaced, (place, len(text.text)))
        spans = [own, *replaced[max(before - 1, 0) : before]]
        if not any(start <= place < end for start, end in spans):
            return False
    return True


def _on_one_line(statement, newline):
    """Returns a statement that others may follow: comments within parentheses."""
    plain, mark, comment = statement.partition("  #")
    if not mark:
        return plain
    start, names = plain.split(" import ")
    return f"{start} import ({names}{mark}{comment}{newline})"


def _decorators(node):
    return getattr(node, "decorator_list", [])


def _is_prologue(statement, index):
    """Whether nothing may stand before a statement: docstrings, `__future__`."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return index == 0
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def sees(scope: Scope, outer: Scope | None) -> bool:
    """Whether code in a scope sees the names that `outer` binds."""
    inner: Scope | None = scope
    while inner is not None:
        if inner is outer:
            return inner is scope or inner.kind != CLASS
        inner = inner.parent
    return False
