"""New sources for the cells of a notebook, the rest of its bytes as they were."""

import difflib
import json
import re
from typing import Any, NamedTuple

_SPACE = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r"[^\s,\]}]+")


class Node(NamedTuple):
    """A JSON value, and where it stands in the text."""

    value: Any  # dict of nodes, list of nodes, or what the scalar is
    start: int
    end: int


def scan(text: str, start: int = 0) -> Node:
    """Return the tree of a JSON text that `json.loads` takes, with places."""
    start = _skip(text, start)
    if text[start] == "{":
        return _object(text, start)
    if text[start] == "[":
        return _array(text, start)
    if text[start] == '"':
        value, end = json.decoder.scanstring(text, start + 1)
        return Node(value, start, end)
    end = _SCALAR.match(text, start).end()
    return Node(json.loads(text[start:end]), start, end)


def _skip(text, place):
    return _SPACE.match(text, place).end()


def _object(text, start):
    members: dict[str, Node] = {}
    place = _skip(text, start + 1)
    while text[place] != "}":
        key = scan(text, place)
        value = scan(text, _skip(text, key.end) + 1)  # behind the colon
        members[key.value] = value
        place = _skip(text, value.end)
        place = _skip(text, place + 1) if text[place] == "," else place
    return Node(members, start, place + 1)


def _array(text, start):
    items: list[Node] = []
    place = _skip(text, start + 1)
    while text[place] != "]":
        items.append(scan(text, place))
        place = _skip(text, items[-1].end)
        place = _skip(text, place + 1) if text[place] == "," else place
    return Node(items, start, place + 1)


def with_sources(text: str, sources: dict[int, str]) -> str:
    """Return the text of a notebook with new sources for some of its cells.

    Args:
      text: the notebook's JSON.
      sources: number of the cell, from 1 -> its new source.
    """
    root = scan(text).value
    sheets = root["worksheets"].value if "worksheets" in root else None
    sheets = [sheet.value for sheet in sheets or ()] or [root]
    cells = [cell.value for sheet in sheets for cell in sheet["cells"].value]
    done, place = [], 0
    for number in sorted(sources):
        cell = cells[number - 1]
        node = cell["source"] if "source" in cell else cell["input"]
        done += [text[place : node.start], _encoded(text, node, sources[number])]
        place = node.end
    return "".join([*done, text[place:]])


def _encoded(text, node, source):
    # Of the two ways to write what is not ASCII, the one that the notebook has.
    escapes = text.isascii()
    if isinstance(node.value, str):
        return json.dumps(source, ensure_ascii=escapes)
    items = node.value
    raw = [text[item.start : item.end] for item in items]
    new = re.findall(r"[^\n]*\n|[^\n]+", source)
    old = [item.value for item in items]
    done = []
    matcher = difflib.SequenceMatcher(a=old, b=new, autojunk=False)
    for kind, first, last, start, end in matcher.get_opcodes():
        if kind == "equal":
            done += raw[first:last]
        else:
            done += [json.dumps(line, ensure_ascii=escapes) for line in new[start:end]]
    head = text[node.start : items[0].start]
    between = f",{head[1:]}"
    if len(items) > 1:
        between = text[items[0].end : items[1].start]
    return head + between.join(done) + text[items[-1].end : node.end]
