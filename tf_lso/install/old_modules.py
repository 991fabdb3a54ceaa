"""Make the old spellings of modules lead to tf_lso.

Modules that still exist get the old names as attributes. Modules that no longer exist are
added to `sys.modules`.
"""

import contextlib
import functools
import importlib
import importlib.machinery
import sys
import types

from tf_lso import names
from tf_lso.frameworks import keras_versions

# The names of old modules that still exist in TensorFlow or Keras. Programs import these
# modules or get them as attributes, so the modules themselves are changed.
_IN_PLACE = (
    "keras.mixed_precision",
    "tensorflow.train.experimental",
    "tensorflow.compat.v2.train.experimental",
    "tensorflow.compat.v1.mixed_precision",
    "tensorflow.compat.v1.mixed_precision.experimental",
    "tensorflow.compat.v1.train.experimental",
)

# The names of TensorFlow's private modules begin with this prefix. TensorFlow itself uses these
# modules, so programs get changed copies of the modules.
_OVERLAID = "tensorflow.python."

# Maps the name of a parent package to the dotted path of the module that `import` finds
# under this name. None means an empty package. The first three packages still exist, but a
# normal import would make copies of them, and the copies would not contain tf_lso's changes.
# The other packages no longer exist.
_PACKAGES = {
    "tensorflow.compat": "tensorflow.compat",
    "tensorflow.compat.v1": "tensorflow.compat.v1",
    "tensorflow.compat.v2": "tensorflow.compat.v2",
    "keras.api": None,
    "keras.api._v1": None,
    "keras.api._v2": None,
    "keras.api._v1.keras": "keras",
    "keras.api._v2.keras": "keras",
    "tensorflow.compat.v1.keras": "tensorflow.keras",
    "tensorflow.compat.v2.keras": "tensorflow.keras",
}

_PACKAGE = {"__file__": __file__, "__path__": []}

# The full names of the modules that programs reach by an attribute `compat.v2`, such as
# `tf.compat.v2` and `tf.compat.v1.compat.v2`.
_COMPAT_V2 = (
    "tensorflow._api.v2.compat.v2",
    "tensorflow._api.v2.compat.v1.compat.v2",
    "tensorflow._api.v2.compat.v2.compat.v2",
)


def lead_to_tf_lso(keras, ledger):
    """Make every old spelling lead to tf_lso, by import and by attribute."""
    is_tf_keras = keras_versions.package_of(keras) == "tf_keras"
    roots = ("tf_keras",) if is_tf_keras else ("tensorflow", "keras")
    import_packages(roots)
    if not is_tf_keras:
        _add_packages(ledger)
        v2 = {"mixed_precision": module_for("compat.v2.mixed_precision", "tensorflow")}
        _set_all(ledger, map(sys.modules.get, _COMPAT_V2), v2)
    for spelled, namespace in names.MODULES.items():
        is_own = keras_versions.is_own_private(spelled)
        if spelled.split(".")[0] in roots and not is_own:
            _lead(ledger, spelled, namespace)


def import_mirrors():
    for namespace in names.NAMESPACES:
        importlib.import_module(f"tf_lso.{namespace}")


def import_packages(roots):
    """Import the old packages in TensorFlow 2.12-2.15, so that tf_lso can change them.

    In these versions, an import such as `import tensorflow.keras` makes a copy of a Keras
    module, and afterwards attributes of `tf` refer to the copy. So the import must come
    before the changes. With Keras 3 this function imports nothing, because attributes of
    `tf` never refer to a copy.
    """
    packages = {*_PACKAGES, *(spelled.rpartition(".")[0] for spelled in names.MODULES)}
    for name in () if keras_versions.has_keras3() else sorted(packages):
        if name.split(".")[0] in roots and "experimental" not in name:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)


def _add_packages(ledger):
    for name, path in _PACKAGES.items():
        if name in sys.modules:
            continue
        package = _reach(path) if path else _made(name, _PACKAGE)
        _let_import(ledger, name, package)


def _lead(ledger, spelled, namespace):
    contents, loaded = _contents(spelled, namespace), sys.modules.get(spelled)
    there = _reach(spelled) if spelled in _IN_PLACE else loaded
    if there is None:
        _let_import(ledger, spelled, module_for(namespace, spelled))
    elif spelled.startswith(_OVERLAID):
        overlay = _made(spelled, {**vars(loaded), **contents})
        _let_import(ledger, spelled, overlay)
    else:
        # `loaded`, the module in `sys.modules`, may be a copy of the module to which an
        # attribute such as `tf.train.experimental` refers. So change both modules.
        _set_all(ledger, (there, loaded or there), contents)
        if loaded is None:
            _let_import(ledger, spelled, there)


def _let_import(ledger, name, module):
    """Let programs import `module` under the dotted name `name`.

    The module also becomes an attribute of the parent package, unless the package already has
    another attribute of this name.
    """
    parent, _, last = name.rpartition(".")
    parent, before = sys.modules.get(parent), sys.modules.get(name)
    if parent is not None and vars(parent).get(last) is before:
        ledger.set_attribute(parent, last, module)
    ledger.set_item(sys.modules, name, module)


def _made(name, contents):
    """Return a new module whose attributes are the items of the dict `contents`."""
    module = types.ModuleType(name)
    # `importlib.util.find_spec`, by which programs ask for an old module, raises an error for a
    # module without a spec.
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    vars(module).update(contents)
    return module


def _reach(path):
    root, *names_ = path.split(".")
    return functools.reduce(getattr, names_, sys.modules[root])


def _set_all(ledger, owners, contents):
    for owner in owners:
        for name, value in contents.items():
            if vars(owner).get(name) is not value:
                ledger.set_attribute(owner, name, value)


# --- The contents of the modules.

# The names in `tf_lso.policies` that have a different value for each Keras package.
_POLICIES = (
    *("Policy", "global_policy", "set_global_policy", "get_layer_policy"),
    *("ExperimentalPolicy", "experimental_global_policy", "set_policy"),
)


def _contents(spelled, namespace):
    """Return {name: object} for what the old module `spelled` must contain."""
    # The import registers a policy class with Keras.
    from tf_lso import policies

    own = policies.for_package(_package_of(spelled))
    of_keras = {getattr(policies, name): getattr(own, name) for name in _POLICIES}
    mirror = importlib.import_module(f"tf_lso.{namespace}")
    values = {name: getattr(mirror, name) for name in names.mirror_names(namespace)}
    contents = {name: of_keras.get(value, value) for name, value in values.items()}
    for inside in (*names.NAMESPACES, *names.PRIVATE):
        parent, _, last = inside.rpartition(".")
        is_own = keras_versions.is_own_private(f"{spelled}.{last}")
        if parent == namespace and not is_own:
            contents[last] = module_for(inside, spelled)
    return contents


def _package_of(spelled):
    root = spelled.split(".")[0]
    return keras_versions.package_of_tensorflow() if root == "tensorflow" else root


def module_for(namespace, spelled):
    """Return the module of tf_lso that programs get under the old module name `spelled`.

    This module is the mirror `tf_lso.NAMESPACE` if `spelled` leads to the Keras package behind
    `tf.keras`. For another Keras package, the function returns a copy of the mirror with the
    policies of that package.
    """
    return _module_for(namespace, _package_of(spelled))


@functools.cache
def _module_for(namespace, package):
    mirror = importlib.import_module(f"tf_lso.{namespace}")
    if package == keras_versions.package_of_tensorflow():
        return mirror
    contents = {**vars(mirror), **_contents(package, namespace)}
    return _made(mirror.__name__, contents)
