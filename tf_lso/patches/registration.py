"""Makes Keras 3 find tf_lso's optimizers in files, even before they are imported.

Keras 3 does not import the modules that a file names, so classes must be registered. What
is registered here imports the class when a file needs it.
"""

import importlib
import sys
from typing import Any

from tf_lso import keras_versions
from tf_lso.patches import import_hooks

# Name in files -> module of the class. Its import registers the class itself.
_MODULES = {
    "tf_lso>LossScaleOptimizer": "tf_lso.optimizers.loss_scale_optimizer",
    "tf_lso>ExperimentalLossScaleOptimizer": "tf_lso.optimizers.experimental",
}


class _Later:
    """A placeholder for the class until it is imported."""

    def __init__(self, module: str) -> None:
        self._module = module

    def from_config(self, config: dict[str, Any]) -> Any:
        """Import the class and make the optimizer that the config describes."""
        return importlib.import_module(self._module).LossScaleOptimizer.from_config(
            config
        )


def _register() -> None:
    if not keras_versions.has_keras3():
        return  # Keras 2 finds them by `loading_configs`
    registered = sys.modules["keras"].saving.get_custom_objects()
    for name, module in _MODULES.items():
        registered.setdefault(name, _Later(module))


def register() -> None:
    """Register the names with Keras 3, as soon as the program imports it."""
    if hasattr(sys.modules.get("keras"), "saving"):
        _register()
    else:
        import_hooks.ImportHook("keras", _register)
