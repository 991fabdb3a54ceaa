"""Adds to a plan what it needs of imports: moved names, `import tf_lso`, `install()`."""

import ast
import bisect
import re
from collections.abc import Iterable

from tf_lso.source.fixes import Moves, Plan
from tf_lso.source.renaming import New
from tf_lso.source.scopes import CLASS, Imported, Place, Scope
from tf_lso.source.texts import Edit, Text, applied

# --- One import statement.

_MODULE = re.compile(r"from[\s\\]+(.+?)(?=[\s\\]+import\b)", re.DOTALL)
_NEWLINE = r"(?:\r\n|\r|\n)"
_COMMENT = r"#[^\r\n]*(?![^\r\n])"  # to the end of its line
# Behind a name: its comma, and the rest of the line if no other name stands there.
_ITS_OWN = re.compile(
    rf"(?:(?:\s|\\|{_COMMENT})*?,)?(?:[ \t\f]*(?:{_COMMENT})?(?:{_NEWLINE}|\Z))?"
)


def rewritten(
    text: Text, node: ast.Import | ast.ImportFrom, moves: Moves
) -> tuple[str, list[str]]:
    """Return what takes the place of an import, and the statements that follow it."""
    source = text.of(node)
    if isinstance(node, ast.Import):
        return _renamed(text, node, moves), []
    groups: dict[str, list[ast.alias]] = {}
    for alias in node.names:
        way = moves.get(alias)
        groups.setdefault(_source(way) if way else "", []).append(alias)
    if len(groups) == 1:
        (path,) = groups
        return _MODULE.sub(f"from {path}", source, count=1), []
    first, comments = _without(text, node, groups.pop("", []))
    lines = []
    for path, aliases in groups.items():
        names = (f"{a.name} as {a.asname}" if a.asname else a.name for a in aliases)
        named = f"from {path} import {', '.join(names)}"
        lines.append("  ".join([named, *(c for a in aliases for c in comments[a])]))
    return first, lines


def _source(way: New) -> str:
    """The module to import from: a module that moves is imported from its package."""
    return way.module.rpartition(".")[0] if way.is_module else way.module


def _renamed(text: Text, node: ast.Import, moves: Moves) -> str:
    """`import a.b as c` takes the new path; `import a.b` binds `a`, and keeps that."""
    edits, seen, start = [], set(), text.start(node)
    end = start
    for alias in node.names:
        way, name = moves.get(alias), alias.name
        if way and alias.asname:
            name = way.module
            new = f"{name} as {alias.asname}"
            edits.append(Edit(text.start(alias) - start, text.end(alias) - start, new))
        elif way:
            name = alias.name.split(".")[0]
            place, new = (end, "") if name in seen else (text.start(alias), name)
            edits.append(Edit(place - start, text.end(alias) - start, new))
        seen.add(name)
        end = text.end(alias)
    return applied(text.of(node), edits)


def _without(
    text: Text, node: ast.ImportFrom, kept: list[ast.alias]
) -> tuple[str, dict[ast.alias, list[str]]]:
    """Return an import with some of its names, and the comments that go with others.

    A comment behind a name goes with the name. A comment on its own line stays.
    """
    source, begin = text.of(node), text.start(node)
    starts = [text.start(alias) - begin for alias in node.names]
    before = source[: starts[0]]
    closing = source.rindex(")") if "(" in before else len(source)
    newline, left, comments = text.newline(begin), before, {}
    for alias, start, stop in zip(node.names, starts, [*starts[1:], closing]):
        if alias in kept:
            left += source[start:stop]
            continue
        own = _ITS_OWN.match(source, text.end(alias) - begin, stop)
        end = own.end() if own else stop
        rest = source[end:stop]
        comments[alias] = re.findall(_COMMENT, source[start : end if kept else stop])
        if "#" in rest:
            left = left.rstrip(" \t\f")
            left += rest if left.endswith(("\r", "\n")) else newline + rest
    if not kept:
        first = node.names[0]
        comments[first] = re.findall(_COMMENT, before) + comments[first]
        return "", comments
    if node.names[-1] not in kept:
        left = left.rstrip(" \t\f\r\n\\")
        lines = re.split(_NEWLINE, source[:closing])
        alone = "(" in before and not lines[-1].strip()
        if alone or "#" in re.split(_NEWLINE, left)[-1]:
            left += newline + (lines[-1] if alone else "")
        else:
            left = left.removesuffix(",")
    return left + source[closing:], comments


# --- All that changes in the statements of a program.


class Statements:
    """The statements of a plan that change, and the lines before and after them."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.top = {s: cell for cell, tree in plan.trees.items() for s in tree.body}
        self.cells: dict[ast.stmt, int | None] = dict(self.top)
        for site in plan.program.sites:
            if isinstance(site.node, (ast.Import, ast.ImportFrom)):
                self.cells[site.node] = site.cell
        self.first: dict[ast.stmt, str] = {}  # what takes its place, "" for nothing
        self.after: dict[ast.stmt, list[str]] = {}  # statement -> lines behind it

    def add(self, install_at: ast.stmt | None, like: str | None, cleans: bool) -> None:
        """Add the edits of the statements to the plan's own.

        `install()` is to be called before `install_at`, if that is given. `cleans` says
        whether imports that nothing in the file uses any more go.
        """
        for site, moves in self.plan.imports.values():
            text = self.plan.texts[site.cell]
            self.first[site.node], lines = rewritten(text, site.node, moves)
            self._note(site.node, lines)
        name = self.plan.root
        line = "import tf_lso" if name == "tf_lso" else f"import tf_lso as {name}"
        if install_at is not None:
            call = f'{name}.install(like="{like}")' if like else f"{name}.install()"
            self._precede(install_at, [line, "", call, ""])
        self._bind(line, install_at)
        if cleans:
            self._remove_unused()
        for node in self.cells:
            if node in self.first or node in self.after:
                self._replace(node, self.first.get(node), self.after.get(node, []))

    def _note(self, node: ast.stmt, lines: Iterable[str]) -> None:
        known = self.after.setdefault(node, [])
        known.extend(line for line in lines if line not in known)

    # --- `import tf_lso`.

    def _bind(self, line: str, install_at: ast.stmt | None) -> None:
        """Put the import behind the imports of the rewritten names."""
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
        known = self._first_import(install_at)
        if at_top and known is None:
            self._at_top(line)
            return
        starts = [self._place(node) for node in places if node in self.top]
        starts += [known] if known else []
        first = min(starts, default=None)
        for node in places:
            if first is None or self._place(node) <= first:
                self._note(node, [line])

    def _place(self, node: ast.stmt) -> Place:
        return self.cells[node] or 0, node.lineno, node.col_offset

    def _first_import(self, install_at: ast.stmt | None) -> Place | None:
        """Return the place after which `tf_lso` is bound already, or None."""
        found = []
        if install_at is not None:
            found.append((self.top[install_at] or 0, install_at.lineno, -1))
        for binding in self.plan.program.module.names.get(self.plan.root, ()):
            value = binding.value
            if isinstance(value, Imported) and value.path == "tf_lso":
                if value.node in self.top:
                    found.append(self._place(value.node))
        return min(found, default=None)

    def _at_top(self, line: str) -> None:
        body = next(tree.body for tree in self.plan.trees.values() if tree.body)
        index = 0
        while index < len(body) - 1 and _is_prologue(body[index], index):
            index += 1
        self._precede(body[index], [line])

    # --- Imports that nothing needs any more.

    def _remove_unused(self) -> None:
        text = self.plan.texts[None]
        refs = [ref for _, refs in self.plan.needs for ref in refs]
        replaced = sorted((e.start, e.end) for e in self.plan.edits.get(None, ()))
        for node in dict.fromkeys(ref.origin for ref in refs):
            if node is None or node not in self.top or len(node.names) != 1:
                continue
            name = node.names[0].asname or node.names[0].name.split(".")[0]
            if self.after.get(node) and _is_unused(text, name, node, replaced):
                self.first[node] = ""

    # --- Edits.

    def _replace(self, node: ast.stmt, first: str | None, after: list[str]) -> None:
        cell = self.cells[node]
        text = self.plan.texts[cell]
        start, end = text.start(node), text.end(node)
        if first == "":
            first, *after = after
        if first is not None:
            self.plan.edit(cell, start, end, first)
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

    def _precede(self, node: ast.stmt, lines: list[str]) -> None:
        cell = self.top[node]
        text = self.plan.texts[cell]
        decorators = getattr(node, "decorator_list", ())
        first = min(part.lineno for part in (node, *decorators))
        start = text.start(node) if first == node.lineno else text.starts[first - 1]
        newline = text.newline(start)
        if text.before(start).strip():
            joined = "".join(f"{line}; " for line in lines if line)
        else:
            joined = "".join(f"{line}{newline}" for line in lines)
        self.plan.edit(cell, start, start, joined)


def _is_unused(
    text: Text, name: str, node: ast.stmt, replaced: list[tuple[int, int]]
) -> bool:
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
