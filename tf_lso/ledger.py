"""Change modules and classes of others such that every change can be undone."""

import sys

_ABSENT = object()


def _is_wrapper(owner):
    """Whether `owner` is a module of tf.compat.v1, which keeps copies of attributes."""
    return "_tfmw_wrapped_module" in vars(owner)


class Ledger:
    """The changes so far, in order. `undo` undoes them."""

    def __init__(self):
        self._undo = []
        self.is_open = True  # until it is taken back

    def set_attribute(self, owner, name, value):
        """Set an attribute of a module or class."""
        before = vars(owner).get(name, _ABSENT)
        if _is_wrapper(owner):
            self._undo.append(_restorer_of_wrapper(owner, name))
        else:
            self._undo.append(lambda: _restore(owner, name, before))
        setattr(owner, name, value)

    def set_module(self, name, module):
        """Let `import name` find `module`."""
        before = sys.modules.get(name, _ABSENT)

        def undo():
            if before is _ABSENT:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = before

        self._undo.append(undo)
        sys.modules[name] = module

    def on_undo(self, function):
        """Call `function` on undo, in its place in the order."""
        self._undo.append(function)

    def undo(self):
        """Undo all changes, the last one first."""
        self.is_open = False
        while self._undo:
            self._undo.pop()()


def _restore(owner, name, before):
    if before is not _ABSENT:
        setattr(owner, name, before)
    elif name in vars(owner):
        delattr(owner, name)


def _restorer_of_wrapper(owner, name):
    wrapped = owner._tfmw_wrapped_module
    attributes = {scope: vars(scope).get(name, _ABSENT) for scope in (wrapped, owner)}
    listed = list(owner.__all__)

    def undo():
        # `setattr` also refreshes the cache that reading from the wrapper uses.
        if attributes[wrapped] is not _ABSENT:
            setattr(owner, name, attributes[wrapped])
        elif name in vars(owner):
            delattr(owner, name)
        if attributes[owner] is _ABSENT:
            vars(owner).pop(name, None)
        owner.__all__[:] = listed

    return undo
