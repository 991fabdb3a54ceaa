"""A switch for what a call further down must do otherwise, in this thread alone."""

import contextlib
import threading


class ThreadSwitch(threading.local):
    """Off, but within `with switch.on():` of the same thread. Such blocks nest."""

    is_on = False

    @contextlib.contextmanager
    def on(self):
        """Switch on, and at the end back to what was before."""
        before = self.is_on
        self.is_on = True
        try:
            yield
        finally:
            self.is_on = before
