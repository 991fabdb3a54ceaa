"""Look up names in the mirrors, the modules of tf_lso that replace old modules.

For example, `tf_lso.keras` is the mirror of `tf.keras`.
"""

import difflib
import importlib
import sys
import types
from collections.abc import Callable, Collection
from typing import Any

from tf_lso import names

# Programs look for these names in `tf_lso`. Maps each name to the module that has it.
_TOOLS = {
    "LossScaleMonitor": "callbacks",
    "TerminateOnStuckScale": "callbacks",
    "explain": "debugging",
    "restore": "checkpoints",
}


def attribute_error(module: str, name: str, known: Collection[str]) -> AttributeError:
    """Return the AttributeError for a missing name. It may suggest a `known` name."""
    message = f"module {module!r} has no attribute {name!r}."
    similar = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    elsewhere = _elsewhere(module, name)
    if elsewhere:
        message += f" Did you mean '{elsewhere}.{name}'?"
    elif similar:
        message += f" Did you mean {similar[0]!r}?"
    elif known:
        message += f" It has: {', '.join(sorted(known))}."
    # With `name=` and `obj=`, Python would add a suggestion of its own.
    return AttributeError(message)


def _elsewhere(module: str, name: str) -> str:
    """Return the path of another module that has the missing name, or ""."""
    spaces = [space for space, has in names.NAMESPACES.items() if name in has]
    if "experimental" in module:
        # The program probably means a name of the experimental API.
        spaces.sort(key=lambda space: "experimental" not in space)
    if spaces:
        # Suggest the module of `tf` if `install()` has put the class or function there.
        own, installed = (
            getattr(sys.modules.get(f"{package}.{spaces[0]}"), "__dict__", {}).get(name)
            for package in ("tf_lso", "tensorflow")
        )
        package = "tf" if own is not None and own is installed else "tf_lso"
        return f"{package}.{spaces[0]}"
    return f"tf_lso.{_TOOLS[name]}" if name in _TOOLS else ""


def mirror_getattr(module: str, known: Collection[str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a mirror that defines the names `known`.

    It imports the submodules that replace private modules of Keras or TensorFlow, and raises
    an AttributeError for any other name.
    """

    def __getattr__(name: str) -> Any:
        inside = f"{module}.{name}"
        if inside.removeprefix("tf_lso.") in names.PRIVATE:
            return importlib.import_module(inside)
        raise attribute_error(module, name, known)

    return __getattr__


def also_in(package: str, *mirrors: types.ModuleType) -> None:
    """Let programs import modules and their submodules under a second name.

    For example, after `also_in("tf_lso.compat.v2", tf_lso.keras)` the names
    `tf_lso.compat.v2.keras` and `tf_lso.keras` refer to the same module.
    """
    for mirror in mirrors:
        for name, module in list(sys.modules.items()):
            if f"{name}.".startswith(f"{mirror.__name__}."):
                sys.modules[name.replace("tf_lso", package, 1)] = module
