"""What happens below and is answered above: `assembly` says by what."""

import importlib


class Event:
    """Calls the functions that were registered for it."""

    def __init__(self):
        self._functions = []

    def register(self, function):
        """Call `function` each time it happens, with what `happened` gets."""
        self._functions.append(function)

    def happened(self, *args):
        """Call the registered functions."""
        if not self._functions:
            # A file named a module, and Keras imported it alone.
            importlib.import_module("tf_lso.assembly")
        for function in self._functions:
            function(*args)


optimizer_wrapped = Event()  # with the module of its Keras
policy_set = Event()  # with the module of its Keras, before the policy is set
