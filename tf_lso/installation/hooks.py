"""Do something once a module has been imported."""

import importlib.abc
import importlib.util
import sys

_FRAMEWORKS = ("tensorflow", "keras", "tf_keras")


class ImportHook(importlib.abc.MetaPathFinder):
    """Calls functions before and after a module's first import runs its code.

    Args:
      name: the module's name.
      after: function without arguments.
      before: function without arguments, or None.
    """

    def __init__(self, name, after, before=None):
        self._name = name
        self._before = before
        self._after = after
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        """Return the module's own spec, with a loader that calls the functions."""
        del path, target
        if name != self._name:
            return None
        self.remove()
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        loader = spec.loader
        load = loader.exec_module

        def exec_module(module):
            # The class's own again; another hook for this module has done it, too.
            vars(loader).pop("exec_module", None)
            if self._before is not None:
                self._before()
            load(module)
            self._after()

        loader.exec_module = exec_module
        return spec

    def remove(self):
        """Look for the module no more."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)


def after_import_of_frameworks(function):
    """Call `function` once, when TensorFlow or a Keras has been imported in full.

    They import one another: the first that is done may stand inside another's import,
    and then it is too early.
    """
    at_work = []
    hooks = []

    def done():
        at_work.pop()
        if not at_work and hooks:
            for hook in hooks:
                hook.remove()
            hooks.clear()
            function()

    for name in _FRAMEWORKS:
        hooks.append(ImportHook(name, done, lambda: at_work.append(True)))
