"""What other files of a package bind: `from .utils import tf`, `from .compat import keras`."""

import ast
import os
import warnings

from tf_lso import names
from tf_lso.source import lookup
from tf_lso.source.inference import Found, Inference
from tf_lso.source.reading import ERRORS, parsed

# Names that programs hand on, and those of the old API.
_HANDED_ON = {"tf", "tensorflow", "keras", "K", "tfk", "mixed_precision"}
_WORTH = {name.rpartition(".")[2] for name in names.SYMBOLS} | _HANDED_ON
_DEEPEST = 3  # files on the way


class Package:
    """Finds what the imports of a file within its package lead to."""

    def __init__(self, path: str, depth: int = 0) -> None:
        self._folder = os.path.dirname(os.path.abspath(path))
        self._depth = depth

    def bound(self, node: ast.ImportFrom, name: str) -> Found | None:
        """Return what another file binds a name to, or None if that is not seen."""
        if name not in _WORTH or self._depth == _DEEPEST:
            return None
        path = self._file(node)
        return _bound(path, name, self._depth + 1) if path else None

    def _file(self, node: ast.ImportFrom) -> str | None:
        parts = node.module.split(".") if node.module else []
        folder = self._folder
        if node.level:
            for _ in range(node.level - 1):
                folder = os.path.dirname(folder)
        elif parts and parts[0] not in lookup.FRAMEWORKS:
            # The folder of the package that the file itself is in.
            while os.path.basename(folder) != parts[0]:
                above = os.path.dirname(folder)
                if above == folder:
                    return None
                folder = above
            folder = os.path.dirname(folder)
        else:
            return None
        stem = os.path.join(folder, *parts)
        for path in (f"{stem}.py", os.path.join(stem, "__init__.py")):
            if os.path.isfile(path):
                return path
        return None


def _bound(path: str, name: str, depth: int) -> Found | None:
    """Return what the file itself binds a name to, if that is a part of the old API."""
    try:
        with open(path, "rb") as file:
            data = file.read()
        if name.encode() not in data:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read = parsed(path, [(None, data)])
    except (OSError, *ERRORS):
        return None
    with read.program() as program:
        if name not in program.module.names:
            return None
        found = Inference(program, elsewhere=Package(path, depth).bound).of(
            ast.Name(name), program.module
        )
    known = tuple(v for v in found.values if lookup.is_known(v.path) and v.sure)
    # The imports are those of the other file: none of this one leads to them.
    values = tuple(
        v._replace(stops=tuple(s._replace(node=None, scope=None) for s in v.stops))
        for v in known
    )
    return Found(values, found.doubt) if values else None
