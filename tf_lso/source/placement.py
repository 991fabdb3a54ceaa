"""Where `tf_lso.install()` goes: the entry of a program, where that can be seen.

A library module that needs it works if the program that imports it has called it before.
"""

import dataclasses
import os
import re
from collections.abc import Iterable

_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n#]*)"
    r"|import[ \t]+([^\n#]*))",
    re.MULTILINE,
)
_INSTALLS = "tf_lso.install("
_DEEPEST = 8  # parts of a module's name that are compared


@dataclasses.dataclass
class Placement:
    """What one file has to do with `install()`.

    Attributes:
      reasons: why it is to be called here, for other files.
      met: whether it has been called when this file is imported.
      wraps: whether another file of the program wraps optimizers by tf_lso.
    """

    reasons: list[str] = dataclasses.field(default_factory=list)
    met: bool = False
    wraps: bool = False


def placed(paths: Iterable[str], needing: dict[str, list[str]]) -> dict[str, Placement]:
    """Return file -> its placement, of the files for which one file is not for itself.

    Args:
      paths: all files of the programs.
      needing: file -> why it needs `install()`.
    """
    if not needing:
        return {}
    files = {os.path.abspath(path): path for path in paths if path.endswith(".py")}
    imports = {file: _imports(file) for file in files}
    modules = _modules(files)
    graph = {
        file: {found for one in imports[file] if (found := _file(one, file, modules))}
        for file in files
    }
    imported = set().union(*(graph[file] - {file} for file in graph))
    entries = [f for f in files if f not in imported and not _is_no_entry(f)]
    reached = {entry: _reached(entry, graph) for entry in entries}
    of = {
        path: [entry for entry in entries if os.path.abspath(path) in reached[entry]]
        for path in needing
        if os.path.abspath(path) in imported
    }
    of = {path: several for path, several in of.items() if several}
    chosen = set().union(*of.values()) if of else set()
    if not chosen or len(chosen) > len(of):  # that would be more places, not fewer
        return {}
    done: dict[str, Placement] = {path: Placement(met=True) for path in of}
    for path, choices in of.items():
        for entry in choices:
            if _INSTALLS not in _text(entry):
                one = done.setdefault(files[entry], Placement())
                name = os.path.basename(path)
                one.reasons += [f"{why} ({name})" for why in needing[path]]
    return done


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _imports(path: str) -> set[tuple[int, str]]:
    """Return (level, module) of all that a file may import, as far as text tells."""
    found = set()
    for dots, module, listed, plain in _IMPORT.findall(_text(path)):
        if plain:
            found |= {(0, part.split()[0]) for part in plain.split(",") if part.split()}
            continue
        found.add((len(dots), module))
        for part in listed.strip("()").split(","):
            if part.split():
                dotted = f"{module}.{part.split()[0]}" if module else part.split()[0]
                found.add((len(dots), dotted))
    return found


def _modules(files: Iterable[str]) -> dict[str, list[str]]:
    """Return each ending of a module's dotted name -> the files that it may be."""
    found: dict[str, list[str]] = {}
    for file in files:
        stem = file.removesuffix(".py").removesuffix(f"{os.sep}__init__")
        parts = stem.split(os.sep)[-_DEEPEST:]
        for start in range(len(parts)):
            found.setdefault(".".join(parts[start:]), []).append(file)
    return found


def _file(
    one: tuple[int, str], importer: str, modules: dict[str, list[str]]
) -> str | None:
    level, name = one
    if level:
        folder = importer
        for _ in range(level):
            folder = os.path.dirname(folder)
        stem = os.path.join(folder, *name.split(".")) if name else folder
        known = modules.get(os.path.basename(stem), [])
        choices = (f"{stem}.py", os.path.join(stem, "__init__.py"))
        return next((choice for choice in choices if choice in known), None)
    known = modules.get(name, [])
    beside = os.path.join(os.path.dirname(importer), *name.split(".")) + ".py"
    if beside in known:
        return beside
    return known[0] if len(known) == 1 else None


def _reached(entry: str, graph: dict[str, set[str]]) -> set[str]:
    seen, todo = {entry}, [entry]
    while todo:
        for file in graph[todo.pop()] - seen:
            seen.add(file)
            todo.append(file)
    return seen


def _is_no_entry(path: str) -> bool:
    name = os.path.basename(path)
    return name.startswith(("test_", "conftest", "__init__")) or (
        name.endswith("_test.py")
    )
