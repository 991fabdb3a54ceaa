"""The verdict on a dotted path: what `tf_lso.names` knows of it, in sentences."""

from tf_lso import names
from tf_lso.migrate.findings import BREAKS, UNSURE, WORKS, Verdict
from tf_lso.names import mirror_attributes
from tf_lso.names.keras3_names import KERAS_COPY, KERAS_COPY_BREAKS, SHARED
from tf_lso.names.spellings import CONTRIB
from tf_lso.names.targets import OLDER, TODAY, Target, prefixes

_CONTRIB = "tensorflow.contrib.mixed_precision"
# Full module name as programs imported it -> its namespace in tf_lso.
MODULES = {
    **names.MODULES,
    **names.TF_KERAS_MODULES,
    _CONTRIB: "contrib.mixed_precision",
}
# Paths on the way to a module, such as `tensorflow.keras`.
PREFIXES = frozenset().union(*map(prefixes, MODULES)) - MODULES.keys()

_NAMES = {**names.NAMESPACES, **names.PRIVATE}


def is_old(path: str) -> bool:
    """Whether the path is one of the modules, or a name directly in one."""
    return path in MODULES or path.rpartition(".")[0] in MODULES


def moves_whole(path: str) -> bool:
    """Whether what binds the path moves, and with it all that is reached through it.

    A module such as `tf.train.experimental` stays, since it has other names as well.
    """
    return is_old(path) and not (path in MODULES and _is_shared(path))


def symbol(path: str) -> str:
    """Return the key in `names.SYMBOLS` of a path, or ""."""
    module, _, name = path.rpartition(".")
    use = _NAMES.get(MODULES.get(module, ""), {}).get(name)
    return use.symbol if use else ""


def in_tf_keras(path: str) -> bool:
    """Whether the path leads through tf_keras, which still has the API."""
    return path.partition(".")[0] == "tf_keras"


def in_copy(path: str) -> bool:
    """Whether the path leads through TensorFlow's own copy of Keras 2.6."""
    return f"{path}.".startswith(f"{KERAS_COPY}.")


def is_there(path: str, target: Target = TODAY) -> bool:
    """Whether TensorFlow, its Keras or tf_keras has the path."""
    module, _, name = path.rpartition(".")
    if path in MODULES:
        return path in target.modules
    if module not in target.modules:
        return False
    return name in target.modules[module] or (not symbol(path) and _has_more(module))


def _is_shared(module: str) -> bool:
    return MODULES[module].removeprefix("compat.v2.") in SHARED


def _has_more(module: str) -> bool:
    """Whether a module that is there has other names than the old ones."""
    private = MODULES[module] in names.PRIVATE or ".python." in module
    return _is_shared(module) or private or ".src." in module


def of_path(
    path: str, imported: bool = False, target: Target = TODAY
) -> Verdict | None:
    """Return the verdict on a path, or None if it is no old name.

    Args:
      path: the full name, such as `tensorflow.keras.mixed_precision.Policy`.
      imported: whether an import statement names it. A few modules can be reached as
        attributes only.
      target: the TensorFlow that the program is to run on.
    """
    module, _, name = path.rpartition(".")
    if path == _CONTRIB or module == _CONTRIB:
        return _of_contrib(path)
    if path not in MODULES and module not in MODULES:
        return None
    gone = _gone(path, imported, target)
    if path in MODULES:
        return _of_module(path, gone)
    if name == "*":
        return _of_star(module, imported, target)
    if name in _NAMES.get(MODULES[module], {}):
        return _of_name(path, gone, target)
    if gone and not (module in target.modules and _has_more(module)):
        return _of_stranger(path, gone)
    return None


def _gone(path: str, imported: bool, target: Target) -> str:
    """Return a sentence for a path that is gone, or ""."""
    attributes = tuple(f"{keras}." for keras in target.by_attribute)
    if not is_there(path, target):
        if in_tf_keras(path):
            return f"tf_keras has no {path}."
        if target.keras_2 and path.startswith("tensorflow."):
            return f"The Keras that `--like {target.like}` gives has no {path}."
        return f"TensorFlow 2.16 and later have no {path}."
    if imported and path.startswith(attributes):
        return f"{path} can be reached as an attribute only."
    return ""


def _spelled(module: str) -> tuple[str, str]:
    """Return the public old name of a module, and its name in tf_lso."""
    namespace = MODULES[module]
    if in_tf_keras(module):  # both generations of its API have the same names
        return f"tf_keras.{namespace.partition('keras.')[2]}", f"tf_lso.{namespace}"
    return f"tf.{namespace}", f"tf_lso.{namespace}"


def _of_module(module: str, gone: str) -> Verdict | None:
    old, new = _spelled(module)
    if gone:
        return Verdict(old, BREAKS, gone, "Has what the module had.", "", new)
    if _is_shared(module):
        return None
    return Verdict(old, WORKS, "The module is there.", "Mirrors it.", "", new)


def _of_star(module: str, imported: bool, target: Target) -> Verdict | None:
    if gone := _gone(module, imported, target):
        return _of_module(module, gone)
    old, new = _spelled(module)
    today = "Old names that are gone will be missing where they are used."
    return Verdict(f"{old}.*", UNSURE, today, f"{new} has all of them.", "", new)


def _of_name(path: str, gone: str, target: Target) -> Verdict | None:
    """Return the verdict on a known name of a module."""
    module, _, name = path.rpartition(".")
    old, new = (f"{spelled}.{name}" for spelled in _spelled(module))
    use = _NAMES[MODULES[module]][name]
    about = names.SYMBOLS[use.symbol]
    if use.versions.startswith("2.16"):
        if not target.keras_2:
            return None  # a name of Keras 3, which is no old one
        everywhere = f"tf_lso.keras.mixed_precision.{OLDER.get(name, name)}"
        does = f"Nothing: it is a name of Keras 3. {everywhere} works in all versions."
        return Verdict(old, BREAKS, gone, does)
    kept = in_tf_keras(path)
    keras_2 = target.keras_2 and path.startswith("tensorflow.")
    breaks = about.keras_2 if keras_2 else about.breaks
    status, today = WORKS, "Works as it did."
    if gone:
        had = "" if kept else f" TensorFlow {use.versions} had it."
        status, today = BREAKS, gone + had
    elif kept:
        today = "Works: tf_keras still has it, for its own optimizers."
    elif in_copy(path):
        status, today = BREAKS, KERAS_COPY_BREAKS
    elif breaks and use.today == names.CHANGED:
        # Only `compile` asks for the policy in force.
        is_policy = use.symbol == "set_global_policy"
        status, today = UNSURE if is_policy else BREAKS, breaks
    current = "" if kept or target.keras_2 else about.current
    return Verdict(old, status, today, about.does, current, new)


def _of_stranger(path: str, gone: str) -> Verdict:
    """Return the verdict on a name that no version of a module had in public."""
    module, _, name = path.rpartition(".")
    old, new = _spelled(module)
    known = _NAMES.get(MODULES[module], {})
    does = f"Nothing: {mirror_attributes.attribute_error(new, name, known)}"
    return Verdict(f"{old}.{name}", BREAKS, gone, does)


def _of_contrib(path: str) -> Verdict:
    name, use = path.replace("tensorflow", "tf", 1), CONTRIB.get(path, "")
    instead = f"Write {use}." if use else "Rewrite it by hand."
    today = "tf.contrib is gone since TensorFlow 2.0."
    does = f"Nothing: it has no stand-in for tf.contrib. {instead}"
    return Verdict(name, BREAKS, today, does, use)
