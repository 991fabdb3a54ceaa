"""Change modules and classes of others such that every change can be undone.

All that tf_lso changes in TensorFlow and Keras is made here, under a key: by `install()`,
and without it by the first policy or the first optimizer of tf_keras.
"""

import functools
import sys
import threading
import types
from collections.abc import Callable, Hashable
from typing import Any

from tf_lso import tf_private

_ABSENT = object()
_lock = threading.RLock()
_made: "dict[Hashable, Ledger]" = {}  # in the order in which they were made


class Ledger:
    """The changes so far, in order. `undo` undoes them."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []
        self.is_open = True  # until it is undone

    def set_attribute(self, owner: Any, name: str, value: object) -> None:
        """Set an attribute of a module or class."""
        if tf_private.wrapped_module(owner) is not None:
            self._undo.append(_restorer_of_wrapper(owner, name))
        else:
            before = vars(owner).get(name, _ABSENT)
            self._undo.append(lambda: _restore(owner, name, before))
        setattr(owner, name, value)

    def replace(self, owner: Any, name: str, function: Any) -> None:
        """Set a function of a module or class, with the original's name and docstring."""
        wrapped = functools.wraps(getattr(owner, name))(function)
        self.set_attribute(owner, name, wrapped)

    def set_module(self, name: str, module: types.ModuleType) -> None:
        """Let `import name` find `module`."""
        self.set_item(sys.modules, name, module)

    def set_item(self, owner: dict[str, Any], name: str, value: object) -> None:
        """Set an item of a dict."""
        before = owner.get(name, _ABSENT)

        def undo() -> None:
            if before is _ABSENT:
                owner.pop(name, None)
            else:
                owner[name] = before

        self._undo.append(undo)
        owner[name] = value

    def on_undo(self, function: Callable[[], object]) -> None:
        """Call `function` on undo, in its place in the order."""
        self._undo.append(function)

    def undo(self) -> None:
        """Undo all changes, the last one first."""
        self.is_open = False
        while self._undo:
            self._undo.pop()()


def make(key: Hashable, change: Callable[[Ledger], object]) -> Ledger | None:
    """Let `change` make its changes, all or none; once for a key.

    Returns:
      The ledger, None if the changes of this key are made already.
    """
    with _lock:
        if key in _made:
            return None
        ledger = Ledger()
        try:
            change(ledger)
        except BaseException:
            ledger.undo()
            raise
        _made[key] = ledger
        return ledger


def add(ledger: Ledger, change: Callable[[Ledger], object]) -> None:
    """Let `change` make its changes too, unless `ledger` is undone already."""
    with _lock:
        if ledger.is_open:
            change(ledger)


def is_made(key: Hashable) -> bool:
    """Whether the changes of a key are made."""
    return key in _made


def undo(key: Hashable) -> None:
    """Undo the changes of a key, if they are made."""
    with _lock:
        if key in _made:
            _made.pop(key).undo()


def undo_all() -> None:
    """Undo the changes of all keys, the last one first."""
    with _lock:
        while _made:
            undo(next(reversed(_made)))


def _restore(owner: Any, name: str, before: object) -> None:
    if before is not _ABSENT:
        setattr(owner, name, before)
    elif name in vars(owner):
        delattr(owner, name)


def _restorer_of_wrapper(owner: Any, name: str) -> Callable[[], None]:
    """Return what restores an attribute of a module of tf.compat.v1.

    Such a module is a wrapper, which keeps copies of attributes.
    """
    wrapped: Any = tf_private.wrapped_module(owner)
    attributes = {scope: vars(scope).get(name, _ABSENT) for scope in (wrapped, owner)}
    listed = list(owner.__all__)

    def undo() -> None:
        # `setattr` also refreshes the cache that reading from the wrapper uses.
        _restore(owner, name, attributes[wrapped])
        if attributes[owner] is _ABSENT:
            vars(owner).pop(name, None)
        owner.__all__[:] = listed

    return undo
