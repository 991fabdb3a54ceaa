"""What is changed in Keras: `compile`, saving and loading. All of it can be undone.

`install()` turns both on for each Keras. Without it `assembly` turns on loading for
tf_keras when its first optimizer is wrapped, and compiling for a Keras when a policy of
`tf_lso` is set.
"""

import threading

from tf_lso import ledger as ledger_lib
from tf_lso import log
from tf_lso.keras_patches import compiling, loading

COMPILING, LOADING = "compiling", "loading"

_PATCHES = {COMPILING: compiling.PATCHES, LOADING: loading.PATCHES}

_lock = threading.RLock()
_ledgers = {}  # (what, module name of a Keras) -> the ledger of its patches


def enable(what, keras):
    """Change a Keras; once is enough.

    Args:
      what: `COMPILING`, by which `compile` wraps optimizers by tf_lso; or `LOADING`, by
        which files and configs of all generations load, and tf_keras saves all state.
      keras: the module `keras` or `tf_keras`.

    Returns:
      Whether this call did it.
    """
    key = what, keras.__name__
    with _lock:
        if key in _ledgers:
            return False
        ledger = ledger_lib.Ledger()
        for patch in _PATCHES[what][keras.__name__]:
            patch(keras, ledger)
        _ledgers[key] = ledger
        log.logger().debug("tf_lso has changed %s of %s", *key)
        return True


def disable(what, keras):
    """Leave a Keras as it was."""
    with _lock:
        ledger = _ledgers.pop((what, keras.__name__), None)
        if ledger is not None:
            ledger.undo()


def disable_all():
    """Leave each Keras as it was."""
    with _lock:
        while _ledgers:
            _, ledger = _ledgers.popitem()  # the last first
            ledger.undo()
