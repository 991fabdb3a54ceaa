"""Lets Keras 3 find tf_lso's optimizers in files, also before they are imported.

Keras 3 imports no module that a file names, so a class must be registered with it. What
is registered here imports the class when a file asks for it.
"""

import importlib
import sys

from tf_lso.installation import hooks

# Name that files have -> the module of the class, which registers itself in its turn.
_MODULES = {
    "tf_lso>LossScaleOptimizer": "tf_lso.optimizers.loss_scale_optimizer",
    "tf_lso>ExperimentalLossScaleOptimizer": "tf_lso.optimizers.experimental",
}


class _Later:
    """Stands for the class until it is imported."""

    def __init__(self, module):
        self._module = module

    def from_config(self, config):
        """Return the optimizer that the config describes."""
        return importlib.import_module(self._module).LossScaleOptimizer.from_config(
            config
        )


def _register():
    registered = sys.modules["keras"].saving.get_custom_objects()
    for name, module in _MODULES.items():
        registered.setdefault(name, _Later(module))


def register():
    """Register the names with Keras 3, as soon as the program imports it."""
    if hasattr(sys.modules.get("keras"), "saving"):
        _register()
    else:
        hooks.ImportHook("keras", _register)
