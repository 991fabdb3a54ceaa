"""What is changed in Keras: `compile`, saving and loading. All of it can be undone.

`install()` turns both on for each Keras. Without it `assembly` turns on loading for
tf_keras when its first optimizer is wrapped, and compiling for a Keras when a policy of
`tf_lso` is set.
"""

from tf_lso import ledger as ledger_lib
from tf_lso import log
from tf_lso.keras_patches import compiling, loading

COMPILING, LOADING = "compiling", "loading"

_PATCHES = {COMPILING: compiling.PATCHES, LOADING: loading.PATCHES}


def enable(what, keras):
    """Change a Keras; once is enough.

    Args:
      what: `COMPILING`, by which `compile` wraps optimizers by tf_lso; or `LOADING`, by
        which files and configs of all generations load, and tf_keras saves all state.
      keras: the module `keras` or `tf_keras`.

    Returns:
      Whether this call did it.
    """

    def change(ledger):
        for patch in _PATCHES[what][keras.__name__]:
            patch(keras, ledger)
        log.logger().debug("tf_lso has changed %s of %s", what, keras.__name__)

    return ledger_lib.make((what, keras.__name__), change) is not None


def disable(what, keras):
    """Leave a Keras as it was."""
    ledger_lib.undo((what, keras.__name__))
