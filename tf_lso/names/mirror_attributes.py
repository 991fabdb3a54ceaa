"""What the mirrors share: names that they lack, and mirrors under several names."""

import difflib
import importlib
import sys
import types
from collections.abc import Callable, Collection
from typing import Any

from tf_lso import names


def attribute_error(module: str, name: str, known: Collection[str]) -> AttributeError:
    """Return the AttributeError for `name` of `module`, with the nearest known name."""
    message = f"module {module!r} has no attribute {name!r}."
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    elsewhere = [space for space, has in names.NAMESPACES.items() if name in has]
    if elsewhere:
        message += f" Did you mean 'tf_lso.{elsewhere[0]}.{name}'?"
    elif near:
        message += f" Did you mean {near[0]!r}?"
    elif known:
        message += f" It has: {', '.join(sorted(known))}."
    # Without `name=` and `obj=`, from which Python would make the same suggestion again.
    return AttributeError(message)


def mirror_getattr(module: str, known: Collection[str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a mirror, which loads the private modules in it."""

    def __getattr__(name: str) -> Any:
        inside = f"{module}.{name}"
        if inside.removeprefix("tf_lso.") in names.PRIVATE:
            return importlib.import_module(inside)
        raise attribute_error(module, name, known)

    return __getattr__


def also_in(package: str, *mirrors: types.ModuleType) -> None:
    """Let `import` find mirrors, and those in them, in another package too."""
    for mirror in mirrors:
        for name, module in list(sys.modules.items()):
            if f"{name}.".startswith(f"{mirror.__name__}."):
                sys.modules[name.replace("tf_lso", package, 1)] = module
