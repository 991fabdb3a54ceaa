"""Errors in a notebook: the hint stands below the traceback."""

import sys

from tf_lso.patches import hints


def shell():
    """Return the shell of IPython that the program runs in, or None."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def show_hints(keras, ledger):
    """Say the hint that names `--like` after an error that Keras 3 makes."""
    here = shell()
    if here is None:
        return

    @ledger.around(here, "showtraceback")
    def showtraceback(original, *args, **kwargs):
        original(*args, **kwargs)
        error = sys.exc_info()[1]
        line = None if error is None else hints.hint(error)
        if line is not None:
            print(line, file=sys.stderr)
