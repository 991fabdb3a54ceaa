"""Run code when a module has been imported."""

import functools
import importlib
import importlib.abc
import importlib.util
import sys
import threading
import types
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any

from tf_lso.frameworks import keras_versions


class ImportHook(importlib.abc.MetaPathFinder):
    """Calls a function once, after the first complete import of one of some modules.

    The modules must not be imported yet. If they import one another, the function is called
    after the outermost of these imports.
    """

    def __init__(self, function: Callable[[], object], *names: str) -> None:
        self._function, self._names = function, names
        self._finding: set[tuple[str, int]] = set()  # (module, thread)
        self._loading = 0  # how many of the modules are being imported
        self._is_waiting = True
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        """Return the spec of a module, with a loader that calls the function."""
        del path, target
        finding = name, threading.get_ident()
        if name not in self._names or finding in self._finding:
            return None
        # Let the other finders find the module. The function is called only if the module
        # is imported, since some callers only need its spec.
        self._finding.add(finding)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._finding.remove(finding)
        if spec is None or spec.loader is None:
            return spec
        loader, load = spec.loader, spec.loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            # Restore the method of the loader's class. Perhaps another hook for this module
            # has already done so.
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
        """Stop waiting for an import. The function will not be called any more."""
        self._is_waiting = False
        if self in sys.meta_path:
            sys.meta_path.remove(self)


def after_import_of_frameworks(function: Callable[[], object]) -> None:
    """Call `function` once, when TensorFlow or a Keras has been imported completely."""
    if "tensorflow" in sys.modules:
        function()
    else:
        ImportHook(function, "tensorflow", *keras_versions.PACKAGES)


# Name of an optimizer of tf_lso in files -> the module of the class.
_OPTIMIZERS = {
    "tf_lso>LossScaleOptimizer": "tf_lso.optimizers.loss_scale_optimizer",
    "tf_lso>ExperimentalLossScaleOptimizer": "tf_lso.optimizers.experimental",
}


def _stand_in(module: str, package: str) -> types.SimpleNamespace:
    """Return an object that a Keras finds in place of the optimizer class of a module.

    When a file needs the class, the object imports the module and makes an optimizer for
    the Keras `package`.
    """

    def from_config(config: dict[str, Any], custom_objects: Any = None) -> Any:
        cls = importlib.import_module(module).LossScaleOptimizer
        configs = importlib.import_module("tf_lso.optimizers.config")
        return configs.from_config(cls, config, custom_objects, package)

    return types.SimpleNamespace(from_config=from_config)


def register_optimizers() -> None:
    """Make each Keras find tf_lso's optimizers in files, as soon as it is imported."""
    for package in keras_versions.PACKAGES:
        register = functools.partial(_register, package)
        if hasattr(sys.modules.get(package), "utils"):  # it is imported
            register()
        else:
            ImportHook(register, package)


def _register(package: str) -> None:
    registered = sys.modules[package].utils.get_custom_objects()
    for name, module in _OPTIMIZERS.items():
        registered.setdefault(name, _stand_in(module, package))
