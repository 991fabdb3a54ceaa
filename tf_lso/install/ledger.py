"""Change modules and classes of others such that every change can be undone."""

import functools
import inspect
import re
import sys
import types
from collections.abc import Callable
from typing import Any, TypeVar

from tf_lso.frameworks import tf_private

_ABSENT = object()

# Matches the names of the modules of a Keras. Modules such as `tensorflow.keras.models` are
# copies that their import makes.
_OF_KERAS = re.compile(r"(keras|tf_keras|tensorflow\.keras)(\.|$)")


def _replace(name: str, before: object, after: object) -> None:
    """Replace a value under a name in all modules of Keras."""
    # Loop over a copy, since another thread may import a module meanwhile.
    for path, module in [*sys.modules.items()]:
        if _OF_KERAS.match(path) and vars(module).get(name) is before:
            setattr(module, name, after)


_Function = TypeVar("_Function", bound=Callable[..., Any])


def _function_of(before: object, bound: Any) -> Any:
    """Return the function of a property or class method. For anything else return `bound`."""
    if isinstance(before, property):
        return before.fget
    return before.__func__ if isinstance(before, classmethod) else bound


def _like(before: object, function: Any) -> Any:
    """Return `function`, as a property or class method if `before` is one."""
    if isinstance(before, property):
        return before.getter(function)
    return classmethod(function) if isinstance(before, classmethod) else function


class Ledger:
    """The changes that were made, in their order, and how to undo each of them."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []
        self.is_open = True  # until `undo` is called

    def set_attribute(self, owner: Any, name: str, value: object) -> None:
        """Set an attribute of a module or class."""
        # A module of tf.compat.v1 wraps another module and keeps copies of its attributes.
        wrapped, is_copied = tf_private.wrapped_module(owner), name in vars(owner)
        before = vars(wrapped or owner).get(name, _ABSENT)
        listed = [] if wrapped is None else list(owner.__all__)

        def undo() -> None:
            if before is not _ABSENT:
                setattr(owner, name, before)
            elif name in vars(owner):
                delattr(owner, name)
            if wrapped is not None:
                owner.__all__[:] = listed
                if not is_copied:
                    vars(owner).pop(name, None)

        self.on_undo(undo)
        setattr(owner, name, value)

    def add_missing(self, owner: Any, attributes: dict[str, object]) -> None:
        """Set attributes that a class lacks."""
        for name, value in attributes.items():
            if not hasattr(owner, name):
                self.set_attribute(owner, name, value)

    def set_item(self, owner: Any, name: str, value: object) -> None:
        """Set an item of a dict, such as `sys.modules`."""
        before = {name: owner[name]} if name in owner else {}
        self.on_undo(lambda: (owner.pop(name, None), owner.update(before)))
        owner[name] = value

    def around(self, owner: Any, name: str) -> Callable[[_Function], _Function]:
        """Return a decorator that replaces `owner.name` by the decorated function.

        The function gets the original as its first argument, followed by the arguments of
        the call. A method of a class, or the getter of a property, is replaced in the class
        that defines it, since Keras tests whether a model's `compile` is that of the base
        class. A function of a module is replaced in all modules of Keras that have it, since
        the public modules and the private ones that use the function are different modules.

        Raises:
          ImportError: if `owner` has no attribute `name` in this version.
        """
        if isinstance(owner, type):
            owner = next((cls for cls in owner.__mro__ if name in vars(cls)), owner)
        before = inspect.getattr_static(owner, name, _ABSENT)
        if before is _ABSENT:
            raise ImportError(
                f"{owner} has no {name}, which tf_lso replaces. Install versions of "
                "TensorFlow and Keras that tf_lso supports."
            )

        def decorate(function: _Function) -> _Function:
            original = _function_of(before, getattr(owner, name))

            @functools.wraps(original)
            def replacement(*args: Any, **kwargs: Any) -> Any:
                if not self.is_open:  # a program may have kept it
                    return original(*args, **kwargs)
                return function(original, *args, **kwargs)

            after = _like(before, replacement)
            self.set_attribute(owner, name, after)
            if isinstance(owner, types.ModuleType):
                _replace(name, before, after)
                # Modules that are imported before the undo have copied the replacement.
                self.on_undo(functools.partial(_replace, name, after, before))
            return function

        return decorate

    def on_undo(self, function: Callable[[], object]) -> None:
        """Call `function` in `undo`, after the functions that are added later."""
        self._undo.append(function)

    def undo(self) -> None:
        """Undo all changes, the last one first."""
        self.is_open = False
        while self._undo:
            self._undo.pop()()


def make(change: Callable[[Ledger], object]) -> Ledger:
    """Return the ledger of the changes that `change` makes. If it fails, undo them all."""
    ledger = Ledger()
    try:
        change(ledger)
    except BaseException:
        ledger.undo()
        raise
    return ledger
