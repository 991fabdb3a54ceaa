"""Which rooms may know of which others: read from the imports, nothing is imported."""

import ast
from pathlib import Path

import pytest

_PACKAGE = Path(__file__).parents[1] / "tf_lso"

# Room -> the rooms of tf_lso that its modules may import, beside itself.
ROOMS = {
    "names": set(),
    "programs": {"names", "unknown"},
    "check": {"names", "programs", "progress"},
    # Of `check`, the rules that know which guards train wrong.
    "migrate": {"names", "programs", "progress", "optimizers.table", "check.rules"},
    "running": {"environment", "installation", "names"},
}


def imported_by(path):
    """The parts of tf_lso that a file imports, as `room` and `room.module`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "tf_lso":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module.startswith("tf_lso."):
            module = node.module.removeprefix("tf_lso.")
            yield from (f"{module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_lies_below_it(room):
    allowed = {room, *ROOMS[room]}
    for path in (_PACKAGE / room).rglob("*.py"):
        for part in imported_by(path):
            above = [part.split(".")[0], ".".join(part.split(".")[:2])]
            assert allowed.intersection(above), f"{path} imports {part}"
