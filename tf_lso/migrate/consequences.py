"""Look up in the tables of `tf_lso.names` what happens today with an old name."""

import re

from tf_lso import names
from tf_lso.frameworks import optimizer_table
from tf_lso.migrate.findings import BREAKS, UNSURE, WORKS, Consequence
from tf_lso.names.keras3_names import SHARED
from tf_lso.names.runtimes import TODAY, Runtime
from tf_lso.names.spellings import MODULES

_CLASS = re.compile(
    r"^(tensorflow\.(compat\.v2\.)?)?(keras\.)?optimizers\.(?!legacy)(\w+\.)?(\w+)$"
)


def optimizer_class(path: str) -> str:
    """Return the name of the optimizer class of `tf.keras` or Keras at a path, or ""."""
    found = _CLASS.match(path)
    return found[5] if found and found[5] in optimizer_table.OLD else ""


def _use(path: str) -> names.Use | None:
    module, _, name = path.rpartition(".")
    return names.mirror_names(MODULES.get(module, "")).get(name)


def symbol(path: str) -> str:
    """Return the key in `names.SYMBOLS` for a dotted name, or "" if it is not an old name."""
    use = _use(path)
    return use.symbol if use else ""


def is_old(path: str) -> bool:
    """Return whether `path` is the full name of an old module, class or function."""
    return path in MODULES or _use(path) is not None


def moves_whole(path: str) -> bool:
    """Return whether `migrate` may change an import of `path` to an import from tf_lso.

    It is False for a module such as `tf.train.experimental`, which also has other names.
    """
    return is_old(path) and not (path in MODULES and _is_shared(path))


def in_tf_keras(path: str) -> bool:
    """Return whether a path is in the package `tf_keras`, which still has the old API."""
    return path.partition(".")[0] == "tf_keras"


def is_there(path: str, target: Runtime = TODAY) -> bool:
    """Return whether an old module or name exists on the TensorFlow that `target` describes."""
    module, _, name = path.rpartition(".")
    return path in target.modules or name in target.modules.get(module, ())


def _is_shared(module: str) -> bool:
    return MODULES[module].removeprefix("compat.v2.") in SHARED


def of_path(
    path: str, imported: bool = False, target: Runtime = TODAY
) -> Consequence | None:
    """Return what happens today with an old name.

    The result is None if `path` is not an old name, or is a module that still exists and also
    has names that do not concern loss scaling. `imported` says whether the path is in an import
    statement: a few modules can be reached as attributes but cannot be imported.
    """
    module, _, name = path.rpartition(".")
    if name == "*" and module in MODULES:
        return _of_star(module, target)
    gone = _gone(path, imported, target)
    if path in MODULES:
        return _of_module(path, gone)
    use = _use(path)
    # Names that exist only since version 2.16 are names of Keras 3, not old names.
    if use is None or use.versions.startswith("2.16"):
        return None
    return _of_name(path, use, gone, target)


def _gone(path: str, imported: bool, target: Runtime) -> str:
    attributes = tuple(f"{keras}." for keras in target.by_attribute)
    if not is_there(path, target):
        if in_tf_keras(path):
            return f"tf_keras has no {path}."
        if _is_keras_2(path, target):
            return f"The Keras that `--like {target.like}` gives has no {path}."
        return f"TensorFlow 2.16 and later have no {path}."
    if imported and path.startswith(attributes):
        return f"{path} can be reached as an attribute only."
    return ""


def _is_keras_2(path: str, target: Runtime) -> bool:
    """Return whether a path of TensorFlow or `keras` is looked up in Keras 2."""
    return target.keras_2 and not in_tf_keras(path)


def _spelled(module: str) -> tuple[str, str]:
    """Return the public name of an old module, and the module of tf_lso that replaces it."""
    namespace = MODULES[module]
    if in_tf_keras(module):
        # The packages `tf_keras.api._v1` and `tf_keras.api._v2` are private.
        return f"tf_keras.{namespace.partition('keras.')[2]}", f"tf_lso.{namespace}"
    return f"tf.{namespace}", f"tf_lso.{namespace}"


def _of_module(module: str, gone: str) -> Consequence | None:
    old, new = _spelled(module)
    if gone:
        return Consequence(old, BREAKS, gone, new)
    return (
        None if _is_shared(module) else Consequence(old, WORKS, "It still exists.", new)
    )


def _of_star(module: str, target: Runtime) -> Consequence | None:
    if gone := _gone(module, True, target):
        return _of_module(module, gone)
    old, new = _spelled(module)
    today = "Old names that no longer exist will fail where they are used."
    return Consequence(f"{old}.*", UNSURE, today, new)


def _of_name(path: str, use: names.Use, gone: str, target: Runtime) -> Consequence:
    module, _, name = path.rpartition(".")
    old, new = (f"{spelled}.{name}" for spelled in _spelled(module))
    about = names.SYMBOLS[use.symbol]
    breaks = about.keras_2 if _is_keras_2(path, target) else about.breaks
    if in_tf_keras(path):
        works = "Works: tf_keras still has it, for its own optimizers."
        return Consequence(old, BREAKS if gone else WORKS, gone or works, new)
    if gone:
        today = f"{gone} TensorFlow {use.versions} had it."
        return Consequence(old, BREAKS, today, new)
    if breaks and use.today == names.CHANGED:
        # The change of `set_global_policy` matters only in programs that call `compile`.
        is_policy = use.symbol == "set_global_policy"
        return Consequence(old, UNSURE if is_policy else BREAKS, breaks, new)
    return Consequence(old, WORKS, "Works as before.", new)
