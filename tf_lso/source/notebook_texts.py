"""Puts new sources into the cells of a notebook. Its other bytes stay."""

import difflib
import json
import re
from typing import Any, NamedTuple

_SCALAR = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[^\s,\]}]+')


class Node(NamedTuple):
    """A JSON value, and where it stands in the text."""

    value: Any  # dict of nodes, list of nodes, or what the scalar is
    start: int
    end: int


def scan(text: str, start: int = 0) -> Node:
    """Return the tree of a JSON text that `json.loads` takes, with places."""
    start = _skip(text, start)
    if text[start] not in "{[":
        scalar = _SCALAR.match(text, start)
        end = scalar.end() if scalar else start
        return Node(json.loads(text[start:end]), start, end)
    members: dict[str, Node] = {}
    items: list[Node] = []
    place = _skip(text, start + 1)
    while text[place] not in "}]":
        item = scan(text, place)
        if text[start] == "{":
            key, item = item, scan(text, _skip(text, item.end) + 1)  # behind the colon
            members[key.value] = item
        items.append(item)
        place = _skip(text, item.end)
        place = _skip(text, place + 1) if text[place] == "," else place
    return Node(members if text[start] == "{" else items, start, place + 1)


def _skip(text: str, place: int) -> int:
    while text[place] in " \t\r\n":
        place += 1
    return place


def with_sources(text: str, sources: dict[int | None, str]) -> str:
    """Return the JSON of a notebook with new sources for some of its cells."""
    root = scan(text)
    sheets = root.value["worksheets"].value if "worksheets" in root.value else None
    cells = [
        cell.value for sheet in sheets or [root] for cell in sheet.value["cells"].value
    ]
    done, place = [], 0
    for number in sorted(filter(None, sources)):
        cell = cells[number - 1]
        node = cell["source"] if "source" in cell else cell["input"]
        done += [text[place : node.start], _encoded(text, node, sources[number])]
        place = node.end
    return "".join([*done, text[place:]])


def _encoded(text: str, node: Node, source: str) -> str:
    # A notebook escapes what is not ASCII, or does not.
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
