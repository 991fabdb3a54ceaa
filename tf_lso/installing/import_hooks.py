"""Run code when a module has been imported."""

import importlib
import importlib.abc
import importlib.util
import sys
import types
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any

from tf_lso.frameworks import keras_versions


class ImportHook(importlib.abc.MetaPathFinder):
    """Calls a function once one of some modules, and all that it imports, is imported.

    The modules are not imported yet, and may import one another.
    """

    def __init__(self, function: Callable[[], object], *names: str) -> None:
        self._function, self._names = function, set(names)
        self._loading = 0  # how many of them are being imported
        self._is_waiting = True
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        """Return the spec of a module, with a loader that calls the function."""
        del path, target
        if name not in self._names:
            return None
        self._names.remove(name)  # the other finders are to find it
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        loader, load = spec.loader, spec.loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            # Back to the class's own; another hook for this module may have done it.
            vars(loader).pop("exec_module", None)
            self._loading += 1
            try:
                load(module)
            finally:
                self._loading -= 1
            if self._is_waiting and not self._loading:
                self.remove()
                self._function()

        vars(loader)["exec_module"] = exec_module
        return spec

    def remove(self) -> None:
        """Stop waiting."""
        self._is_waiting = False
        if self in sys.meta_path:
            sys.meta_path.remove(self)


def after_import_of_frameworks(function: Callable[[], object]) -> None:
    """Call `function` once, when TensorFlow or a Keras has been imported completely."""
    if "tensorflow" in sys.modules:
        function()
    else:
        ImportHook(function, "tensorflow", *keras_versions.PACKAGES)


# Name of an optimizer of tf_lso in files -> module whose import registers the class.
_OPTIMIZERS = {
    "tf_lso>LossScaleOptimizer": "tf_lso.optimizers.loss_scale_optimizer",
    "tf_lso>ExperimentalLossScaleOptimizer": "tf_lso.optimizers.experimental",
}


def _stand_in(module: str) -> types.SimpleNamespace:
    """Return what stands for the class of a module until a file needs it."""

    def from_config(config: dict[str, Any]) -> Any:
        cls = importlib.import_module(module).LossScaleOptimizer
        return cls.from_config(config)

    return types.SimpleNamespace(from_config=from_config)


def register_optimizers() -> None:
    """Make Keras 3 find tf_lso's optimizers in files, as soon as it is imported.

    Keras 3 does not import the modules that a file names. Keras 2 has `loading_configs`.
    """

    def register() -> None:
        if keras_versions.has_keras3():
            registered = sys.modules["keras"].saving.get_custom_objects()
            for name, module in _OPTIMIZERS.items():
                registered.setdefault(name, _stand_in(module))

    if hasattr(sys.modules.get("keras"), "saving"):
        register()
    else:
        ImportHook(register, "keras")
