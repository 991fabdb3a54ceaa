"""Make `import keras` lead to the Keras of `tf.keras`, for `install(like=...)` up to 2.15.

In TensorFlow 2.6-2.15 `keras` and `tf.keras` were one Keras. Programs of that time use both,
and some packages import private modules such as `keras.engine` and `keras.src.engine`.
"""

import functools
import importlib
import importlib.abc
import os
import sys
import types
from importlib.machinery import ModuleSpec, PathFinder

from tf_lso.frameworks import environment, keras_versions, moved_homes
from tf_lso.install import like

# The beginnings of the names of tf_keras's modules. The first package is `tf.keras`, the second
# contains the private modules.
_PUBLIC, _PRIVATE, _ROOT = "tf_keras.api._v2.keras.", "tf_keras.src.", "tf_keras."

# Modules of an older Keras, such as `keras.wrappers.scikit_learn`. In Keras 3 these names have
# another meaning.
_REMOVED = ("keras.wrappers", "keras.legacy")


def lead_to_tf_keras(keras, ledger):
    """Make `import keras` lead to the Keras of `tf.keras`, as in TensorFlow 2.6-2.15.

    Submodules such as `keras.layers` and `tf.keras.layers` are the same, too. The private
    modules of that time, such as `keras.engine`, lead to the private modules of tf_keras.
    """
    if not keras_versions.has_keras3() or os.environ.get(like.IMPORT_KERAS) == "0":
        return
    keras3 = {
        name: module for name, module in [*sys.modules.items()] if _is_keras(name)
    }

    def show_keras3():
        for name in filter(_is_keras, [*sys.modules]):
            del sys.modules[name]
        sys.modules.update(keras3)
        environment.hidden.clear()

    ledger.on_undo(show_keras3)
    environment.hidden.update(keras3)
    for name in keras3:
        del sys.modules[name]
    sys.modules["keras"] = importlib.import_module(_PUBLIC.rstrip("."))
    finder = _Finder(ledger)
    sys.meta_path.insert(0, finder)
    ledger.on_undo(lambda: sys.meta_path.remove(finder))
    _find_missing_names(ledger)


def _is_keras(name):
    return f"{name}.".startswith("keras.")


def _find_missing_names(ledger):
    """Let modules find attributes that they had in TensorFlow 2.6-2.12, by `__getattr__`.

    In these versions, `keras.layers` was a private module and not `tf.keras.layers`. So modules
    of `keras` had more attributes, such as `keras.utils.np_utils` and `keras.layers.CuDNNLSTM`.
    """
    homes = {}
    for name, module in [*sys.modules.items()]:
        # Modules of tf_lso with an old name have a `__getattr__` of their own.
        if f"{name}.".startswith(_PUBLIC) and module.__name__ == name:
            homes[name] = [*filter(None, [_home(name)])]
    for path, new in moved_homes.NAMES.items():
        homes[f"{_PRIVATE}{path}"] = [f"{_PRIVATE}{home}" for home in new]
    for name, modules in homes.items():
        module = importlib.import_module(name)
        find = functools.partial(_missing, module, modules)
        ledger.set_attribute(module, "__getattr__", find)


def _missing(module, homes, name):
    """Return the attribute `name` of a module, from a submodule or from the modules `homes`."""
    if not name.startswith("__"):
        submodule = _home(f"{module.__name__}.{name}")
        if submodule is not None:
            return importlib.import_module(submodule)
        for home in homes:
            found = vars(importlib.import_module(home))
            if name in found:
                return found[name]
    message = f"module {module.__name__!r} has no attribute {name!r}"
    raise AttributeError(message, name=name, obj=module)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules of tf_keras under the names that programs import, such as `keras.layers`.

    It also finds private modules by names like "tf_keras.api._v2.keras.utils.tf_utils", which
    do not exist either. Python asks for this name in `from keras.utils import tf_utils`.
    """

    def __init__(self, ledger):
        self._ledger = ledger

    def find_spec(self, name, path=None, target=None):
        """Return a spec if `name` is a second name of a module.

        The name of a module is looked up in its parent package by the parent's own name. The
        other finders would look for "keras.layers" in the folder of tf_keras, and load a
        second copy of the module.
        """
        del path, target
        parent, _, last = name.rpartition(".")
        package = sys.modules.get(parent)
        if package is None or parent.split(".")[0] not in keras_versions.PACKAGES:
            return None
        own = f"{package.__name__}.{last}"
        if _exists(own):
            home = own
        else:
            home = _old_name(package, last) or _home(own)
        needed = only_in_keras3(own) if home is None else None
        if needed is not None:
            raise ModuleNotFoundError(message(needed), name=needed)
        return (
            None if home in (None, name) else ModuleSpec(name, self, loader_state=home)
        )

    def exec_module(self, module):
        """Import the module by its own name, and enter it into `sys.modules`.

        `module` is empty: if `create_module` returned the imported module, Python would
        replace its `__spec__`. Python then takes the module from `sys.modules`, and drops the
        empty one.
        """
        name, home = module.__spec__.name, module.__spec__.loader_state
        found = importlib.import_module(home)
        # Remove the empty module first, so that `undo` does not put it back.
        del sys.modules[name]
        self._ledger.set_item(sys.modules, name, found)
        # Python would set this attribute too, but the ledger could not remove it.
        parent, _, last = name.rpartition(".")
        if vars(sys.modules[parent]).get(last) is not found:
            self._ledger.set_attribute(sys.modules[parent], last, found)


def _exists(name):
    """Return whether a module has been imported by this name, or has a file."""
    if name in sys.modules:
        return True
    parent = name.rpartition(".")[0]
    try:
        folders = getattr(importlib.import_module(parent), "__path__", ())
    except ModuleNotFoundError:
        return False
    return PathFinder.find_spec(name, folders) is not None


def _old_name(package, last):
    """Return the name of the module of tf_lso that replaces `last` in a package, or None."""
    module = vars(package).get(last)
    is_of_tf_lso = isinstance(module, types.ModuleType) and (
        module.__name__.startswith("tf_lso.")
    )
    return module.__name__ if is_of_tf_lso else None


def _home(own):
    """Return the name of the private module that programs know as `own`, or None."""
    path = _path(own)
    homes = (f"{_PRIVATE}{moved_homes.HOMES.get(path, path)}", f"{_ROOT}{path}")
    return next((home for home in homes if home != own and _exists(home)), None)


def _path(own):
    """Return the path below `keras` that a module of tf_keras had in TensorFlow 2.6-2.12."""
    for beginning in (_PUBLIC, _PRIVATE, _ROOT):
        if own.startswith(beginning):
            return own.removeprefix(beginning)
    return own


def only_in_keras3(own):
    """Return the Keras 3 name of `own`, which tf_keras does not have, or None.

    For instance, the Keras 3 name of "tf_keras.api._v2.keras.ops" is "keras.ops".
    """
    name = f"keras.{_path(own)}"
    if name in _REMOVED:
        return None
    parent, _, last = name.rpartition(".")
    return name if hasattr(environment.hidden.get(parent), last) else None


def message(name):
    """Return what to do if a program needs `name`, which only Keras 3 has."""
    version = os.environ[like.VARIABLE]
    return (
        f"{name} is part of Keras 3, but like={version!r} makes `import keras` the Keras of "
        f"TensorFlow {version}. If a library needs Keras 3, keep `import keras` on Keras 3: "
        f"tf_lso.install(like={version!r}, import_keras=False) or `tf-lso run --like "
        f"{version} --no-import-keras SCRIPT`. See `tf-lso help import-keras`"
    )
