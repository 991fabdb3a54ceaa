"""Programs of several files: what another file binds, and which one calls install().

`from .utils import tf` is TensorFlow if `utils` says so. A library module that needs
install() works if the program that imports it has called it before.
"""

import ast
import collections
import dataclasses
import functools
import os
import pathlib
import re
from collections.abc import Callable, Iterable

from tf_lso import names
from tf_lso.source import lookup
from tf_lso.source.inference import Elsewhere, Inference
from tf_lso.source.program import Program
from tf_lso.source.reading import Sources
from tf_lso.source.values import Found, Stop, Value


def file_of(folder: str, level: int, module: str, exists: Callable[[str], bool]) -> str:
    """Return the file that an import in a folder leads to, or "".

    The package of an absolute import may stand in any of the folders above, or in their
    `src`.
    """
    here = pathlib.PurePath(folder)
    above = [here, *here.parents]
    roots = [root for up in above for root in (up, up / "src")]
    stems = [
        root.joinpath(*module.split("."))
        for root in (above[level - 1 : level] if level else roots)
    ]
    paths = (str(p) for stem in stems for p in (f"{stem}.py", stem / "__init__.py"))
    return next(filter(exists, paths), "")


# --- What other files bind.

# Names that programs hand on, and those of the old API.
_WORTH = {"tf", "tensorflow", "keras", "K", "tfk", "mixed_precision"}
_WORTH |= {name.rpartition(".")[2] for name in names.SYMBOLS}
_DEEPEST = 3  # files on the way


def bound_elsewhere(path: str, depth: int = 0) -> Elsewhere:
    """Return what tells the binding of a name that a file imports from another one."""
    folder = os.path.dirname(os.path.abspath(path))

    def bound(node: ast.ImportFrom, name: str) -> Found | None:
        module = node.module or ""
        framework = not node.level and module.split(".")[0] in lookup.FRAMEWORKS
        if framework or name not in _WORTH or depth == _DEEPEST:
            return None
        file = file_of(folder, node.level, module, os.path.isfile)
        data = _read(file)
        if name.encode() not in data:
            return None
        program = Program(Sources(file, [(None, data)]).trees)
        if name not in program.module.names:
            return None
        inference = Inference(program, elsewhere=bound_elsewhere(file, depth + 1))
        found = inference.of(ast.Name(name), program.module).each(_of_old_api)
        return found if found.values else None

    return bound


def _of_old_api(value: Value) -> Value | None:
    # The imports are those of the other file: no import of this one leads to them.
    stops = tuple(Stop(stop.path) for stop in value.stops)
    known = value.sure and lookup.is_known(value.path)
    return value._replace(stops=stops) if known else None


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


# --- Which file calls install().

_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n#]*)"
    r"|import[ \t]+([^\n#]*))",
    re.MULTILINE,
)
_NO_ENTRY = re.compile(r"(test_|conftest|__init__).*|.*_test\.py")


@dataclasses.dataclass
class Placement:
    """What one file has to do with `install()`."""

    # Why it is to be called here, for other files.
    reasons: list[str] = dataclasses.field(default_factory=list)
    met: bool = False  # whether it has been called when this file is imported
    wraps: bool = False  # whether another file of the program wraps by tf_lso


def placed(paths: Iterable[str], needing: dict[str, list[str]]) -> dict[str, Placement]:
    """Return file -> its placement, of the files for which one file is not for itself.

    That one is the entry of a program: no other file imports it. `paths` are all files;
    `needing` tells why a file needs `install()`.
    """
    if not needing:
        return {}
    files = {os.path.abspath(path): path for path in paths if path.endswith(".py")}
    importers = collections.defaultdict[str, set[str]](set)
    # Only a module whose last part names a file or folder is looked for: few are.
    known = {part for file in files for part in file.removesuffix(".py").split(os.sep)}
    found = functools.cache(functools.partial(file_of, exists=files.__contains__))
    for file in files:
        for level, module in _imports(file):
            if not module or module.rpartition(".")[2] in known:
                importers[found(os.path.dirname(file), level, module)].add(file)
    entries = {path: _entries(os.path.abspath(path), importers) for path in needing}
    entries = {path: above for path, above in entries.items() if above}
    if len(set().union(*entries.values())) > len(entries):
        return {}  # more places would be no better
    done = {path: Placement(met=True) for path in entries}
    for path, above in entries.items():
        for entry in above:
            if b"tf_lso.install(" not in _read(entry):
                one = done.setdefault(files[entry], Placement())
                name = os.path.basename(path)
                one.reasons += [f"{why} ({name})" for why in needing[path]]
    return done


def _imports(path: str) -> set[tuple[int, str]]:
    """Return (level, module) of all that a file may import, as far as text tells."""
    found = set()
    for dots, module, listed, plain in _IMPORT.findall(_read(path).decode("latin-1")):
        parts = filter(None, map(str.split, (plain or listed.strip("()")).split(",")))
        above = f"{module}." if module else ""
        found |= {(len(dots), above + name) for name, *_ in parts}
        if not plain:
            found.add((len(dots), module))
    return found


def _entries(file: str, importers: dict[str, set[str]]) -> set[str]:
    """Return the files that lead to a file, and to which no other one leads."""
    above, todo = {file}, [file]
    while todo:
        new = importers[todo.pop()] - above
        above |= new
        todo += new
    return {
        one
        for one in above - {file}
        if importers[one] <= {one} and not _NO_ENTRY.fullmatch(os.path.basename(one))
    }
