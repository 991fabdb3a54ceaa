"""Define functions that the mirrors share.

A mirror is a module of tf_lso that provides the names of an old module, such as `tf_lso.keras`
for `tf.keras`. The functions look up names that a mirror has not defined, and let programs
import a mirror under a second name.
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
    """Return the function `__getattr__` for a mirror.

    The function imports a private submodule of the mirror when a program first uses the
    submodule. For any other name it raises an AttributeError.

    Args:
      module: the full name of the mirror.
      known: the names that the mirror defines. The error may suggest one of them.
    """

    def __getattr__(name: str) -> Any:
        inside = f"{module}.{name}"
        if inside.removeprefix("tf_lso.") in names.PRIVATE:
            return importlib.import_module(inside)
        raise attribute_error(module, name, known)

    return __getattr__


def also_in(package: str, *mirrors: types.ModuleType) -> None:
    """Let programs also import mirrors and their submodules from another package.

    Args:
      package: the full name of the other package, such as "tf_lso.compat.v2".
      *mirrors: the mirror modules.
    """
    for mirror in mirrors:
        for name, module in list(sys.modules.items()):
            if f"{name}.".startswith(f"{mirror.__name__}."):
                sys.modules[name.replace("tf_lso", package, 1)] = module
