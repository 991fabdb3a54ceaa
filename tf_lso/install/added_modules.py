"""Add modules for `install()`. Each added module has a spec, a loader and a file name.

Python needs the spec, the loader and the file name for `importlib.util.find_spec`,
`importlib.reload`, `inspect.getsource`, `pickle` and `pkgutil`.
"""

import importlib.abc
import importlib.util
import sys
import types


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds and loads the modules that `install()` has added."""

    def __init__(self):
        self.made = {}

    def find_spec(self, name, path=None, target=None):
        """Return the spec of an added module, or None for any other name."""
        del path, target
        if name not in self.made:
            return None
        module = self.made[name]
        folders = vars(module).get("__path__")
        return importlib.util.spec_from_file_location(
            name, module.__file__, loader=self, submodule_search_locations=folders
        )

    def create_module(self, spec):
        """Return the added module, which already exists."""
        return self.made[spec.name]

    def exec_module(self, module):
        """Do nothing, since the module already has its contents."""


_finder = _Finder()


def made(name, contents):
    """Return a new module whose attributes are the items of the dict `contents`.

    `contents` must have the key `__file__`.
    """
    module = types.ModuleType(name)
    vars(module).update(contents, __spec__=None)
    return module


def let_import(ledger, name, module):
    """Let programs import `module` under the dotted name `name`.

    The function also makes `module` an attribute of the parent package, unless this
    attribute of the parent package refers to another object.
    """
    parent, _, last = name.rpartition(".")
    parent, before = sys.modules.get(parent), sys.modules.get(name)
    if parent is not None and vars(parent).get(last) is before:
        ledger.set_attribute(parent, last, module)
    if module.__spec__ is None:
        _finder.made[name] = module
        spec = module.__spec__ = _finder.find_spec(name)
        module.__name__, module.__loader__ = name, _finder
        module.__package__ = spec.parent
    if _finder not in sys.meta_path:
        # Keras 3 has its own module `optimizers.legacy`, whose classes only raise an error.
        # Our finder comes first, so that our module is imported instead.
        sys.meta_path.insert(0, _finder)
        ledger.on_undo(lambda: sys.meta_path.remove(_finder))
    ledger.set_item(sys.modules, name, module)
