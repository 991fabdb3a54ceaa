"""The modules that `install()` adds, with the spec, loader and file that Python asks for.

`importlib.util.find_spec` and `reload`, `inspect.getsource`, `pickle` and `pkgutil` do.
"""

import importlib.abc
import importlib.util
import sys
import types


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules that were made, and loads them as they are."""

    def __init__(self):
        self.made = {}

    def find_spec(self, name, path=None, target=None):
        """Return its spec."""
        del path, target
        if name not in self.made:
            return None
        module = self.made[name]
        folders = vars(module).get("__path__")
        return importlib.util.spec_from_file_location(
            name, module.__file__, loader=self, submodule_search_locations=folders
        )

    def create_module(self, spec):
        """Return the module that was made."""
        return self.made[spec.name]

    def exec_module(self, module):
        """Do nothing: the module has its contents, also when it is loaded again."""


_finder = _Finder()


def made(name, contents):
    """Return a module; its contents have the `__file__` where it is made."""
    module = types.ModuleType(name)
    vars(module).update(contents, __spec__=None)
    return module


def let_import(ledger, name, module):
    """Let `import name` find a module, and the attribute of its parent lead there."""
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
        # First: Keras 3 has a file for `optimizers.legacy`, whose classes only raise.
        sys.meta_path.insert(0, _finder)
        ledger.on_undo(lambda: sys.meta_path.remove(_finder))
    ledger.set_item(sys.modules, name, module)
