"""Run code when a module has been imported."""

import importlib.abc
import importlib.util
import sys
import types
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec

_FRAMEWORKS = ("tensorflow", "keras", "tf_keras")


class ImportHook(importlib.abc.MetaPathFinder):
    """Calls functions before and after a module's first import runs its code.

    Args:
      name: the module's name.
      after: function without arguments.
      before: function without arguments, or None.
    """

    def __init__(
        self,
        name: str,
        after: Callable[[], object],
        before: Callable[[], object] | None = None,
    ) -> None:
        self._name = name
        self._before = before
        self._after = after
        sys.meta_path.insert(0, self)

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Return the spec of the module, with a loader that calls the functions."""
        del path, target
        if name != self._name:
            return None
        self.remove()
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        loader = spec.loader
        load = loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            # Back to the class's own. Another hook for this module may have done it already.
            vars(loader).pop("exec_module", None)
            if self._before is not None:
                self._before()
            load(module)
            self._after()

        vars(loader)["exec_module"] = exec_module
        return spec

    def remove(self) -> None:
        """Stop waiting for the module."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)


def after_import_of_frameworks(function: Callable[[], object]) -> None:
    """Call `function` once, when TensorFlow or a Keras has been imported completely.

    They import one another. The first that is done may be part of another one's import,
    which would be too early. Where TensorFlow is there already, call it now.
    """
    if "tensorflow" in sys.modules:
        function()
        return
    at_work: list[bool] = []
    hooks: list[ImportHook] = []

    def done() -> None:
        at_work.pop()
        if not at_work and hooks:
            for hook in hooks:
                hook.remove()
            hooks.clear()
            function()

    for name in _FRAMEWORKS:
        hooks.append(ImportHook(name, done, lambda: at_work.append(True)))
