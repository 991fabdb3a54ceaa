"""The modules that `install()` makes, for Python's own tools.

`importlib.util.find_spec` and `reload`, `inspect.getsource`, `pickle` and `pkgutil` ask a
module for its spec, its loader and its file.
"""

import importlib.abc
import importlib.util
import sys
import types
from collections.abc import Sequence
from importlib.machinery import ModuleSpec

from tf_lso.patches.ledger import Ledger


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules that were made, and loads them as they are."""

    def __init__(self) -> None:
        self._made: dict[str, types.ModuleType] = {}

    def add(self, name: str, module: types.ModuleType) -> None:
        """Name a module without a spec, and give it one."""
        self._made[name] = module
        module.__name__, module.__loader__ = name, self
        module.__spec__ = self.find_spec(name)
        module.__package__ = module.__spec__.parent if module.__spec__ else None

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return the spec of a module that was made."""
        del path, target
        module = self._made.get(name)
        if module is None:
            return None
        return importlib.util.spec_from_file_location(
            name,
            module.__file__,
            loader=self,
            submodule_search_locations=vars(module).get("__path__"),
        )

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        """Return the module of a spec."""
        return self._made[spec.name]

    def exec_module(self, module: types.ModuleType) -> None:
        """Do nothing: the module has its contents, also when it is loaded again."""


_finder = _Finder()


def copied(module: types.ModuleType) -> types.ModuleType:
    """Return a module with the contents and the file of another one."""
    made = types.ModuleType(module.__name__, module.__doc__)
    vars(made).update({**vars(module), "__spec__": None})
    return made


def new(
    name: str, doc: str | None, file: str, path: list[str] | None = None
) -> types.ModuleType:
    """Return an empty module.

    Args:
      name: its name.
      doc: its docstring.
      file: the file of tf_lso that makes its contents.
      path: for a package, the folders of the modules in it.
    """
    made = types.ModuleType(name, doc)
    made.__file__ = file
    if path is not None:
        made.__path__ = path
    return made


def let_import(ledger: Ledger, name: str, module: types.ModuleType) -> None:
    """Let `import name` find a module, which may be one of those above."""
    if module.__spec__ is None:
        _finder.add(name, module)
    if _finder not in sys.meta_path:
        # First: Keras 3 has a file for `optimizers.legacy`, whose classes only raise.
        sys.meta_path.insert(0, _finder)
        ledger.on_undo(lambda: sys.meta_path.remove(_finder))
    ledger.set_item(sys.modules, name, module)
