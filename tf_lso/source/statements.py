"""Rewrites import statements by LibCST, which keeps comments and layout."""

import ast
import functools

import libcst as cst

from tf_lso.source import parentheses
from tf_lso.source.renaming import New


def rewritten(
    source: str,
    node: ast.Import | ast.ImportFrom,
    moves: dict[ast.alias, New],
    newline: str,
) -> list[str]:
    """Return the statements that an import becomes; the first one takes its place.

    Raises:
      ValueError: if LibCST does not read the statement as Python does.
    """
    config = cst.PartialParserConfig(default_newline=newline)
    line = cst.parse_statement(source, config)
    module = cst.Module([], default_newline=newline)
    statement = line.body[0] if isinstance(line, cst.SimpleStatementLine) else line
    if module.code_for_node(statement) != source:
        raise ValueError(f"LibCST does not give this import back as it is: {source!r}")
    ways = [moves.get(alias) for alias in node.names]
    if isinstance(node, ast.Import):
        return [module.code_for_node(_renamed(statement, ways))]
    return _split(module, statement, ways)


def _renamed(statement: cst.Import, ways: list[New | None]) -> cst.Import:
    """`import a.b as c` takes the new path; `import a.b` binds `a`, and keeps that."""
    aliases, seen = [], set()
    for alias, way in zip(statement.names, ways):
        if way and alias.asname:
            alias = alias.with_changes(name=cst.parse_expression(way.module))
        elif way:
            first = alias.evaluated_name.split(".")[0]
            alias = alias.with_changes(name=cst.Name(first))
            if first in seen:
                continue
        seen.add(alias.evaluated_name)
        aliases.append(alias)
    aliases[-1] = aliases[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return statement.with_changes(names=aliases)


def _split(
    module: cst.Module, statement: cst.ImportFrom, ways: list[New | None]
) -> list[str]:
    """`from a import b, c` becomes one statement for each module that b and c are in."""
    groups: dict[str, list[cst.ImportAlias]] = {}
    for alias, way in zip(statement.names, ways):
        groups.setdefault(_source(way) if way else "", []).append(alias)
    if len(groups) == 1:
        (path,) = groups
        moved = statement.with_changes(module=cst.parse_expression(path))
        return [module.code_for_node(moved)]
    done, comments, comments_of = [], parentheses.ends(statement), parentheses.all_of
    if kept := groups.pop("", None):
        done, comments = (
            [module.code_for_node(parentheses.without(statement, kept))],
            [],
        )
        comments_of = functools.partial(parentheses.inline, statement)
    for path, aliases in groups.items():
        for alias in aliases:
            comments += comments_of(alias)
        text = f"from {path} import {', '.join(map(_plain, aliases))}"
        done.append("  ".join([text, *comments]))
        comments = []
    return done


def _source(way: New) -> str:
    """The module to import from: a module that moves is imported from its package."""
    return way.module.rpartition(".")[0] if way.is_module else way.module


def _plain(alias: cst.ImportAlias) -> str:
    name, other = alias.evaluated_name, alias.evaluated_alias
    return f"{name} as {other}" if other else name
