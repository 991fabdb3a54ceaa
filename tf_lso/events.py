"""What happens below and is answered above: `assembly` says by what."""

from collections.abc import Callable
from typing import Any


class Event:
    """Calls the functions that were registered for it."""

    def __init__(self) -> None:
        self._functions: list[Callable[..., Any]] = []

    def register(self, function: Callable[..., Any]) -> None:
        """Call `function` each time it happens, with what `happened` gets."""
        self._functions.append(function)

    def happened(self, *args: Any) -> list[Any]:
        """Call the registered functions; return what they return."""
        return [function(*args) for function in self._functions]


optimizer_wrapped = Event()  # with the package of its Keras
policy_set = Event()  # with the package of its Keras, before the policy is set
wrappers_wanted = Event()  # answered by the stable and the experimental class
