"""Put tf_lso where old programs look for the old names, and take it away again."""

import functools
import sys
import threading

from tf_lso import environment
from tf_lso.installation import hooks
from tf_lso.keras_patches import ledger as ledger_lib

_lock = threading.RLock()
_installed = None  # the ledger of what is in force


class Handle:
    """What `install` returns: takes back what was installed.

    As a context manager it does so at the end of the block, unless it was installed
    before the block already.
    """

    def __init__(self, installed_here):
        self._installed_here = installed_here

    def uninstall(self):
        """Leave TensorFlow and Keras as they were before `install`; once is enough."""
        _uninstall()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self._installed_here:
            self.uninstall()


def install(*, usage=None):
    """Make every old spelling of the loss-scaling API resolve to tf_lso.

    `tf.keras.mixed_precision.experimental`, `tf.train.experimental`,
    `from tensorflow.keras.mixed_precision import experimental` and all the others, also
    for modules that were imported before. `compile` wraps the optimizers of
    mixed_float16 models by tf_lso, and Keras 3's optimizers answer to their old
    attributes (`lr`, ...). Calling it again changes nothing.

    Args:
      usage: a `Usage` that is to note which old names the program uses, or None.

    Returns:
      A `Handle` with `uninstall()`, also a context manager.

    Raises:
      ImportError: if TensorFlow or Keras is of a version that tf_lso does not support.

    Example:

    >>> import tensorflow as tf
    >>> import tf_lso
    >>> with tf_lso.install():
    ...     from tensorflow.keras.mixed_precision import experimental
    ...     opt = experimental.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), 128)
    >>> float(opt.loss_scale())
    128.0
    """
    global _installed
    with _lock:
        if _installed is not None:
            return Handle(installed_here=False)
        ledger = ledger_lib.Ledger()
        try:
            _apply(ledger, usage)
        except BaseException:
            ledger.undo()
            raise
        _installed = ledger
        return Handle(installed_here=True)


def uninstall():
    """Leave TensorFlow and Keras as they were before tf_lso changed them.

    Takes back what `install` has done, and what is changed without it: files of tf_keras
    hold all state once one of its optimizers is wrapped, and `compile` wraps by tf_lso
    once a policy of tf_lso is set. The next such optimizer or policy does it again.

    Example:

    >>> import tf_lso
    >>> handle = tf_lso.install()
    >>> tf_lso.uninstall()
    """
    from tf_lso import keras_patches

    _uninstall()
    keras_patches.disable_all()


def _uninstall():
    global _installed
    with _lock:
        if _installed is not None:
            _installed.undo()
            _installed = None


def _apply(ledger, usage):
    environment.require_tensorflow()
    import keras

    # The mirrors first: they take hold of what is replaced.
    from tf_lso import compat, mixed_precision, train  # noqa: F401
    from tf_lso import keras as keras_mirror  # noqa: F401
    from tf_lso.installation import attributes, callbacks, namespaces, spellings
    from tf_lso.keras_patches import restoring

    spellings.apply(ledger, ("tensorflow", "keras"))
    if usage is not None:
        for module, namespace in spellings.modules():
            usage.watch(ledger, module, namespace)
    attributes.apply(ledger)
    callbacks.apply(ledger)
    namespaces.apply(ledger)
    restoring.apply(ledger)
    _help(ledger, keras)
    if "tf_keras" in sys.modules:
        _apply_to_tf_keras(ledger)
    else:
        hook = hooks.ImportHook("tf_keras", lambda: _when_installed(ledger))
        ledger.on_undo(hook.remove)


def _when_installed(ledger):
    with _lock:
        if _installed is ledger:
            _apply_to_tf_keras(ledger)


def _apply_to_tf_keras(ledger):
    # These take hold of what is replaced.
    from tf_lso import policies
    from tf_lso.installation import spellings
    from tf_lso.optimizers import loss_scale_optimizer as optimizers

    policies.of("tf_keras")
    optimizers.prepare_for_tf_keras()
    from tf_lso.installation import attributes_tf_keras

    spellings.apply(ledger, ("tf_keras",))
    attributes_tf_keras.apply(ledger)
    _help(ledger, sys.modules["tf_keras"])


def _help(ledger, keras):
    """Let `compile` of a Keras wrap by tf_lso, and its loading read old configs."""
    from tf_lso import keras_patches

    for what in (keras_patches.COMPILING, keras_patches.LOADING):
        if keras_patches.enable(what, keras):
            ledger.on_undo(functools.partial(keras_patches.disable, what, keras))
