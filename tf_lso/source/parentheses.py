"""Takes names out of an import in parentheses, and keeps all comments.

A comment behind a name goes with the name. A comment on its own line stays.
"""

from typing import Any

import libcst as cst

Space = Any  # a cst.BaseParenthesizableWhitespace
_NONE = cst.SimpleWhitespace("")


def all_of(node: cst.CSTNode) -> list[str]:
    """Return all comments within a node, in order."""
    if isinstance(node, cst.Comment):
        return [node.value]
    return [comment for child in node.children for comment in all_of(child)]


def inline(statement: cst.ImportFrom, alias: cst.ImportAlias) -> list[str]:
    """Return the comments that go with a name: all but those before the next name."""
    found, behind = all_of(alias), _behind(alias)
    if alias is statement.names[-1] and statement.rpar and not _has_comma(alias):
        behind = statement.rpar.whitespace_before
        found += all_of(behind)
    lines = [c for line in _lines(behind) for c in all_of(line)]
    return found[: len(found) - len(lines)]


def ends(statement: cst.ImportFrom) -> list[str]:
    """Return the comments that stand before the first and behind the last name."""
    return [c for end in (statement.lpar, statement.rpar) if end for c in all_of(end)]


def without(statement: cst.ImportFrom, kept: list[cst.ImportAlias]) -> cst.ImportFrom:
    """Return the statement with some of its names only."""
    names, rpar = statement.names, statement.rpar
    if rpar is None:
        last = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return statement.with_changes(names=[*kept[:-1], last])
    # The space before each name, and before the closing parenthesis.
    spaces = [statement.lpar.whitespace_after, *map(_behind, names[:-1])]
    comma = _has_comma(names[-1])
    if comma and rpar.whitespace_before.empty:
        spaces.append(names[-1].comma.whitespace_after)
    else:
        spaces.append(rpar.whitespace_before)
    done, start = [], 0
    before = []
    for end, alias in enumerate(names):
        if alias in kept:
            before.append(_joined(spaces[start : end + 1]))
            done.append(alias)
            start = end + 1
    last = start < len(names)
    before.append(_joined(spaces[start:], closing=last) if last else spaces[-1])
    return _put(statement, done, before, comma)


def _put(
    statement: cst.ImportFrom,
    aliases: list[cst.ImportAlias],
    before: list[Space],
    comma: bool,
) -> cst.ImportFrom:
    """Return the statement with these names, and the space before each."""
    first, *spaces = before
    names = [
        alias.with_changes(comma=_comma(alias).with_changes(whitespace_after=space))
        for alias, space in zip(aliases, spaces)
    ]
    end = _NONE
    bare = isinstance(spaces[-1], cst.SimpleWhitespace)
    if bare and not comma and not all_of(_comma(aliases[-1])):
        names[-1] = names[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        end = spaces[-1]
    return statement.with_changes(
        names=names,
        lpar=statement.lpar.with_changes(whitespace_after=first),
        rpar=statement.rpar.with_changes(whitespace_before=end),
    )


def _has_comma(alias: cst.ImportAlias) -> bool:
    return isinstance(alias.comma, cst.Comma)


def _comma(alias: cst.ImportAlias) -> cst.Comma:
    return alias.comma if _has_comma(alias) else cst.Comma()


def _behind(alias: cst.ImportAlias) -> Space:
    return getattr(alias.comma, "whitespace_after", _NONE)


def _lines(space: Space) -> list[cst.EmptyLine]:
    """Return the whole lines in a space, if one has a comment."""
    lines = getattr(space, "empty_lines", ())
    return list(lines) if any(line.comment for line in lines) else []


def _joined(spaces: list[Space], closing: bool = False) -> Space:
    """Return the space that is left when the names between these are gone.

    Args:
      spaces: the first one stays. The others leave comments on their own lines.
      closing: whether the closing parenthesis follows.
    """
    first, last = spaces[0], spaces[-1]
    lines = [line for space in spaces[1:] for line in _lines(space)]
    several = isinstance(first, cst.ParenthesizedWhitespace)
    if len(spaces) == 1 or not (lines or closing):
        return first
    broken = [s for s in spaces if isinstance(s, cst.ParenthesizedWhitespace)]
    if not broken or (last not in broken and not lines and not all_of(first)):
        return last
    if not several:
        first = broken[-1].with_changes(
            first_line=cst.TrailingWhitespace(
                newline=broken[-1].first_line.newline, whitespace=_NONE
            ),
            empty_lines=[],
        )
    if last in broken:
        first = first.with_changes(indent=last.indent, last_line=last.last_line)
    return first.with_changes(empty_lines=[*first.empty_lines, *lines])
