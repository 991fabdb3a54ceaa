"""What is changed in Keras: `compile`, saving and loading. All of it can be undone.

`install()` turns both on for each Keras. Without it the first wrapped optimizer of a
Keras 2 turns on loading for it, and a policy of `tf_lso` that is set turns on compiling
for its Keras.
"""

from tf_lso import kerases, log
from tf_lso.patches import compiling, loading
from tf_lso.patches import ledger as ledger_lib

COMPILING, LOADING = "compiling", "loading"

# What is changed -> generation of the Keras -> the functions that change it.
_PATCHES = {COMPILING: compiling.PATCHES, LOADING: loading.PATCHES}


def enable(what, package):
    """Change a Keras; once is enough.

    Args:
      what: `COMPILING`, by which `compile` wraps optimizers by tf_lso; or `LOADING`, by
        which files and configs of all generations load, and Keras 2 saves all state.
      package: "keras" or "tf_keras".

    Returns:
      Whether this call did it.
    """

    def change(ledger):
        keras = kerases.public(package)
        for patch in _PATCHES[what][2 if kerases.is_keras2(package) else 3]:
            patch(keras, ledger)
        log.logger().debug("tf_lso has changed %s of %s", what, package)

    return ledger_lib.make((what, package), change) is not None


def disable(what, package):
    """Leave a Keras as it was."""
    ledger_lib.undo((what, package))
