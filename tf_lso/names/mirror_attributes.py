"""Functions for the mirrors, which are the modules of tf_lso with the old names.

The functions handle unknown names, and let programs import a mirror under a second name.
"""

import difflib
import importlib
import sys
import types
from collections.abc import Callable, Collection
from typing import Any

from tf_lso import names


def attribute_error(module: str, name: str, known: Collection[str]) -> AttributeError:
    """Return the AttributeError for a name that a module lacks.

    Args:
      module: the full name of the module.
      name: the name that the module lacks.
      known: the names that the module has. The message may suggest the most similar name.
    """
    message = f"module {module!r} has no attribute {name!r}."
    similar = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    elsewhere = [space for space, has in names.NAMESPACES.items() if name in has]
    if elsewhere:
        message += f" Did you mean 'tf_lso.{elsewhere[0]}.{name}'?"
    elif similar:
        message += f" Did you mean {similar[0]!r}?"
    elif known:
        message += f" It has: {', '.join(sorted(known))}."
    # Do not pass `name=` and `obj=`, since Python would then add a suggestion of its own.
    return AttributeError(message)


def mirror_getattr(module: str, known: Collection[str]) -> Callable[[str], Any]:
    """Return a function `__getattr__` that imports the private modules of a mirror."""

    def __getattr__(name: str) -> Any:
        inside = f"{module}.{name}"
        if inside.removeprefix("tf_lso.") in names.PRIVATE:
            return importlib.import_module(inside)
        raise attribute_error(module, name, known)

    return __getattr__


def also_in(package: str, *mirrors: types.ModuleType) -> None:
    """Let `import` also find mirrors and their submodules in another package."""
    for mirror in mirrors:
        for name, module in list(sys.modules.items()):
            if f"{name}.".startswith(f"{mirror.__name__}."):
                sys.modules[name.replace("tf_lso", package, 1)] = module
