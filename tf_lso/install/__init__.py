"""Make the old names of the loss-scaling API lead to tf_lso, and undo this change.

`tf_lso/__init__.py` binds the name `tf_lso.install` to the function `install` of this
package. So the expression `tf_lso.install.table` does not work. Import the module by
`from tf_lso.install import table`.
"""

import functools
import os
import sys
import threading

from tf_lso.frameworks import environment, keras_versions
from tf_lso.install import import_hooks
from tf_lso.install import ledger as ledger_lib
from tf_lso.install import like as like_lib

_lock = threading.RLock()
# One ledger while tf_lso is installed, otherwise empty.
_made: list[ledger_lib.Ledger] = []


class Handle:
    """The result of `install`. A handle can undo the installation.

    As a context manager, a handle undoes the installation at the end of the `with` block,
    unless tf_lso was already installed before the block.
    """

    def __init__(self, ledger: ledger_lib.Ledger | None) -> None:
        # `ledger` is None if an earlier call of `install` has made the changes.
        self._ledger = ledger

    def __repr__(self) -> str:
        if not _made:
            return "<tf_lso is not installed any more>"
        if self._ledger is None:
            return "<tf_lso was already installed, so this call changed nothing>"
        package = keras_versions.package_of_tensorflow()
        return (
            "<tf_lso is installed: the old names lead to tf_lso, on TensorFlow "
            f"{sys.modules['tensorflow'].__version__} with Keras "
            f"{keras_versions.version(package)} ({package}). Undo it: tf_lso.uninstall()>"
        )

    def uninstall(self) -> None:
        """Undo all changes of `install` to TensorFlow and Keras. A second call does nothing."""
        uninstall()

    def __enter__(self) -> "Handle":
        return self

    def __exit__(self, *error: object) -> None:
        if self._ledger is not None and self._ledger.is_open:
            self.uninstall()


def install(*, like: str | None = None, import_keras: bool = True) -> Handle:
    """Make every old spelling of the loss-scaling API lead to tf_lso.

    Examples of old spellings are `tf.keras.mixed_precision.experimental` and
    `tf.train.experimental`. A program can import an old spelling or get it as an attribute,
    even from modules that were imported before this call. After the call, `compile` wraps the
    optimizer of a mixed_float16 model in a `tf_lso.LossScaleOptimizer`. Without `like` the
    function restores no other part of Keras 2. A second call changes nothing.

    Args:
      like: version of the TensorFlow that the program was written for, such as "2.4".
        `tf.keras` becomes the Keras of that version. For 2.0-2.15 this is Keras 2 (the
        package tf_keras), and for 2.16 and later Keras 3. For 2.0-2.10
        `tf.keras.optimizers.X` also becomes the legacy class. If you pass a version, call
        `install` before the first import of TensorFlow. Defaults to None, which does not
        change the Keras that TensorFlow uses.
      import_keras: bool, whether `import keras` leads to the same Keras as `tf.keras` if
        `like` is 2.15 or earlier, as in TensorFlow 2.6-2.15. Defaults to True. If False,
        `import keras` stays Keras 3. Pass False if the program uses a library that needs
        Keras 3. The first call decides.

    Returns:
      A `Handle`, which has the method `uninstall()` and is a context manager.

    Raises:
      ImportError: if tf_lso does not support the version of TensorFlow or of Keras, or if
        the Keras that `like` asks for is not installed.
      RuntimeError: if TensorFlow was already imported with another Keras than `like` asks
        for, if the program has imported Keras 3 before `import keras` is to lead to Keras 2,
        or if tf_lso was already installed without `like` or with another version.
      TypeError, ValueError: if `like` is not a version of TensorFlow.

    Example:
    >>> import tensorflow as tf
    >>> import tf_lso
    >>> with tf_lso.install():
    ...     from tensorflow.keras.mixed_precision import experimental
    ...     opt = experimental.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1), 128)
    >>> float(opt.loss_scale())
    128.0

    Source: tf_lso adds this; TensorFlow never had it.
    """
    if like is not None:
        # The first call has already decided what `import keras` leads to.
        like_lib.choose(like, import_keras and not _made)
    with _lock:
        if not _made:
            change = functools.partial(
                _change_all, like=like, import_keras=import_keras
            )
            _made.append(ledger_lib.make(change))
            return Handle(_made[0])
    is_keras2 = os.environ.get(like_lib.IMPORT_KERAS) == "1"
    if like not in (None, os.environ.get(like_lib.VARIABLE)) or (
        is_keras2 and not import_keras
    ):
        raise RuntimeError(
            f"install(like={like!r}, import_keras={import_keras}) comes after another "
            "install() with other arguments. Call tf_lso.uninstall() first."
        )
    return Handle(None)


def uninstall() -> None:
    """Undo all changes of `install` to TensorFlow and Keras.

    Programs may call this function inside the block of `with install():` too. Wrapped
    optimizers and the global policy do not change.

    Example:
    >>> import tensorflow as tf
    >>> import tf_lso
    >>> handle = tf_lso.install()
    >>> tf_lso.uninstall()
    >>> hasattr(tf.keras.mixed_precision, "experimental")
    False

    Source: tf_lso adds this; TensorFlow never had it.
    """
    with _lock:
        while _made:
            _made.pop().undo()
        # So that another `import tf_lso.installed` installs again.
        sys.modules.pop("tf_lso.installed", None)


def _change_all(ledger, like, import_keras):
    environment.require_tensorflow()
    if like is not None:
        ledger.set_item(os.environ, like_lib.VARIABLE, like)
        ledger.set_item(os.environ, like_lib.IMPORT_KERAS, str(int(import_keras)))
    environment.require_legacy_keras()
    _change_one(ledger, "keras", like)
    if "tf_keras" in sys.modules:
        _change_one(ledger, "tf_keras", like)
    else:
        later = functools.partial(_change_one, ledger, "tf_keras", like)
        ledger.on_undo(import_hooks.ImportHook(later, "tf_keras").remove)


def _change_one(ledger, package, like):
    # Import these modules before any change is made, because they must refer to the original
    # objects of Keras and not to the changed objects.
    from tf_lso import policies
    from tf_lso.optimizers import families

    policies.for_package(package)
    families.families_of_package(package)

    from tf_lso.install import old_modules, table

    old_modules.import_mirrors()

    def change(part):
        keras_versions.installed.add(package)
        part.on_undo(functools.partial(keras_versions.installed.discard, package))
        table.change(part, package, like)

    with _lock:
        ledger.on_undo(ledger_lib.make(change).undo)
