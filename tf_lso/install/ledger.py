"""Change modules and classes of other packages in a way that can be undone."""

import functools
import inspect
import re
import sys
import types
from collections.abc import Callable
from typing import Any, TypeVar

from tf_lso.frameworks import tf_private

_ABSENT = object()

# An import of `tensorflow.keras.models` makes a copy of a Keras module.
_OF_KERAS = re.compile(r"(keras|tf_keras|tensorflow\.keras)(\.|$)")


def _replace(name: str, before: object, after: object) -> None:
    """Replace `before` by `after` in the Keras modules whose attribute `name` is `before`."""
    # A copy of the dict, because another thread may import a module in the meantime.
    for path, module in [*sys.modules.items()]:
        if _OF_KERAS.match(path) and vars(module).get(name) is before:
            setattr(module, name, after)


_Function = TypeVar("_Function", bound=Callable[..., Any])


class Ledger:
    """Makes changes, and records how to undo each change."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []
        self.is_open = True

    def set_attribute(self, owner: Any, name: str, value: object) -> None:
        # A module of tf.compat.v1 wraps another module, and contains copies of some attributes
        # of the wrapped module. Setting an attribute makes such a copy. If there was no copy
        # before, `undo` must remove the copy.
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
        """Set each item of `attributes` that the class `owner` does not have."""
        for name, value in attributes.items():
            if not hasattr(owner, name):
                self.set_attribute(owner, name, value)

    def set_item(self, owner: Any, name: str, value: object) -> None:
        before = {name: owner[name]} if name in owner else {}
        self.on_undo(lambda: (owner.pop(name, None), owner.update(before)))
        owner[name] = value

    def around(self, owner: Any, name: str) -> Callable[[_Function], _Function]:
        """Return a decorator that replaces `owner.name` by the decorated function.

        The decorated function gets the original function as its first argument, followed by
        the arguments of the call. A method or a property is replaced in the class that
        defines it, since Keras tests whether a model's `compile` is that of the base class.
        A function of a module is replaced in all modules of Keras that contain the
        function, since a public module and private modules may contain the same function.
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
            is_property = isinstance(before, property)
            original = before.fget if is_property else getattr(owner, name)

            @functools.wraps(original)
            def replacement(*args: Any, **kwargs: Any) -> Any:
                if not self.is_open:
                    # The change was undone, but the program still has `replacement`.
                    return original(*args, **kwargs)
                return function(original, *args, **kwargs)

            after = before.getter(replacement) if is_property else replacement
            self.set_attribute(owner, name, after)
            if isinstance(owner, types.ModuleType):
                _replace(name, before, after)
                # Modules that are imported later may refer to the replacement.
                self.on_undo(functools.partial(_replace, name, after, before))
            return function

        return decorate

    def on_undo(self, function: Callable[[], object]) -> None:
        """Make `undo` call `function`. Functions added later are called earlier."""
        self._undo.append(function)

    def undo(self) -> None:
        self.is_open = False
        while self._undo:
            self._undo.pop()()


def make(change: Callable[[Ledger], object]) -> Ledger:
    """Return a ledger of the changes that `change` makes. If it raises an error, undo them."""
    ledger = Ledger()
    try:
        change(ledger)
    except BaseException:
        ledger.undo()
        raise
    return ledger
