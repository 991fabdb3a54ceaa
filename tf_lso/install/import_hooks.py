"""Run code after a module has been imported."""

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
    """Calls a function once, as soon as one of several modules has been imported.

    The modules must not be imported already. If the modules import one another, the
    function is called after the outermost import has ended.
    """

    def __init__(self, function: Callable[[], object], *names: str) -> None:
        self._function, self._names = function, names
        # Contains the pair (module name, thread id) while `find_spec` asks the other finders
        # for the module. Python then calls `find_spec` of this hook a second time, and this
        # second call must return None.
        self._finding: set[tuple[str, int]] = set()
        # The number of modules in `names` that are being executed.
        self._loading = 0
        self._is_waiting = True
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        """Return the spec of one of the hook's modules, or None for any other module."""
        del path, target
        finding = name, threading.get_ident()
        if name not in self._names or finding in self._finding:
            return None
        self._finding.add(finding)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._finding.remove(finding)
        if spec is None or spec.loader is None:
            return spec
        loader, load = spec.loader, spec.loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            # Restore the loader's own method `exec_module`. Another hook for the same module
            # may already have restored the method.
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
    """Call `function` once, after TensorFlow or a Keras package has been imported."""
    if "tensorflow" in sys.modules:
        function()
    else:
        ImportHook(function, "tensorflow", *keras_versions.PACKAGES)


# Maps the name of an optimizer class in saved files to the module that contains the class.
_OPTIMIZERS = {
    "tf_lso>LossScaleOptimizer": "tf_lso.optimizers.loss_scale_optimizer",
    "tf_lso>ExperimentalLossScaleOptimizer": "tf_lso.optimizers.experimental",
}


def _stand_in(module: str, package: str) -> types.SimpleNamespace:
    """Return an object that Keras can register instead of tf_lso's optimizer class.

    The object lets Keras load files before the module of the class is imported.
    """

    def from_config(config: dict[str, Any], custom_objects: Any = None) -> Any:
        cls = importlib.import_module(module).LossScaleOptimizer
        configs = importlib.import_module("tf_lso.optimizers.config")
        return configs.from_config(cls, config, custom_objects, package)

    return types.SimpleNamespace(from_config=from_config)


def register_optimizers() -> None:
    """Let each Keras package load tf_lso's optimizers from files, once it is imported."""
    for package in keras_versions.PACKAGES:
        register = functools.partial(_register, package)
        # If the package has the attribute `utils`, it is already imported.
        if hasattr(sys.modules.get(package), "utils"):
            register()
        else:
            ImportHook(register, package)


def _register(package: str) -> None:
    registered = sys.modules[package].utils.get_custom_objects()
    for name, module in _OPTIMIZERS.items():
        registered.setdefault(name, _stand_in(module, package))
