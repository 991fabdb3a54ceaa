"""A switch that changes what code called from a block does, in this thread only."""

import contextlib
import threading
from collections.abc import Iterator


class ThreadSwitch(threading.local):
    """Is on inside `with switch.on():` of the same thread. Such blocks can be nested."""

    is_on = False

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """Switch on for the block, then back to the state before."""
        before = self.is_on
        self.is_on = True
        try:
            yield
        finally:
            self.is_on = before
