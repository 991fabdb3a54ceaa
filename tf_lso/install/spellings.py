"""Make the old spellings lead to tf_lso. The tables here list the modules.

Modules that exist today get the old names as attributes. Modules that no longer exist are
put into `sys.modules`.
"""

import contextlib
import functools
import importlib
import sys

from tf_lso import names
from tf_lso.frameworks import keras_versions
from tf_lso.install import added_modules

# Spelling of a module -> its namespace.
_SPELLED = {**names.MODULES, **names.TF_KERAS_MODULES}

# Modules that exist today. Programs reach them by import and by attribute, so they are
# changed in place.
_IN_PLACE = (
    "keras.mixed_precision",
    "tensorflow.train.experimental",
    "tensorflow.compat.v2.train.experimental",
    "tensorflow.compat.v1.mixed_precision",
    "tensorflow.compat.v1.mixed_precision.experimental",
    "tensorflow.compat.v1.train.experimental",
)

# TensorFlow itself uses these private modules, so programs get a changed copy.
_OVERLAID = "tensorflow.python."

# Parent package of old modules -> the dotted path of the module that `import` finds instead,
# or None for an empty package. An import of the first three would make copies without the
# changes. The others no longer exist.
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

# The contents of an empty package.
_PACKAGE = {"__file__": __file__, "__path__": []}

# Names of the modules to which the attributes `compat.v2` of TensorFlow lead.
_COMPAT_V2 = (
    "tensorflow._api.v2.compat.v2",
    "tensorflow._api.v2.compat.v1.compat.v2",
    "tensorflow._api.v2.compat.v2.compat.v2",
)


def lead_to_tf_lso(keras, ledger):
    """Make every old spelling lead to tf_lso, by import and by attribute.

    The added modules have a spec and a loader, which a finder in `sys.meta_path` gives, and
    can be reloaded.
    """
    # One call changes TensorFlow and `keras`. Another call changes `tf_keras` after it has
    # been imported.
    is_tf_keras = keras_versions.package_of(keras) == "tf_keras"
    roots = ("tf_keras",) if is_tf_keras else ("tensorflow", "keras")
    import_packages(roots)
    if not is_tf_keras:
        _add_packages(ledger)
        v2 = {"mixed_precision": module_for("compat.v2.mixed_precision", "tensorflow")}
        _set_all(ledger, map(sys.modules.get, _COMPAT_V2), v2)
    for spelled, namespace in _SPELLED.items():
        is_own = keras_versions.is_own_private(spelled)
        if spelled.split(".")[0] in roots and not is_own:
            _lead(ledger, spelled, namespace)


def import_mirrors():
    """Import the mirrors, which are the modules of tf_lso with the old names."""
    for namespace in names.NAMESPACES:
        importlib.import_module(f"tf_lso.{namespace}")


def import_packages(roots):
    """Import the packages that TensorFlow 2.12-2.15 has, so that they are changed in place.

    In these versions the import of a package that leads to `tf.keras` makes a copy, and the
    attributes of `tf` lead to this copy. With Keras 3 nothing is imported, because the
    packages do not exist or their import would make copies that no attribute leads to.
    """
    packages = {*_PACKAGES, *(spelled.rpartition(".")[0] for spelled in _SPELLED)}
    for name in () if keras_versions.has_keras3() else sorted(packages):
        if name.split(".")[0] in roots and "experimental" not in name:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)


def _add_packages(ledger):
    for name, path in _PACKAGES.items():
        if name in sys.modules:
            continue
        package = _reach(path) if path else added_modules.made(name, _PACKAGE)
        added_modules.let_import(ledger, name, package)


def _lead(ledger, spelled, namespace):
    contents, loaded = _contents(spelled, namespace), sys.modules.get(spelled)
    there = _reach(spelled) if spelled in _IN_PLACE else loaded
    if there is None:
        added_modules.let_import(ledger, spelled, module_for(namespace, spelled))
    elif spelled.startswith(_OVERLAID):
        overlay = added_modules.made(spelled, {**vars(loaded), **contents})
        added_modules.let_import(ledger, spelled, overlay)
    else:
        # Importing the module may have made a copy.
        _set_all(ledger, (there, loaded or there), contents)
        if loaded is None:
            added_modules.let_import(ledger, spelled, there)


def _reach(path):
    """Return the module to which a dotted path leads by attributes."""
    root, *names_ = path.split(".")
    return functools.reduce(getattr, names_, sys.modules[root])


def _set_all(ledger, owners, contents):
    for owner in owners:
        for name, value in contents.items():
            if vars(owner).get(name) is not value:
                ledger.set_attribute(owner, name, value)


# --- The contents of the modules.

# The names in `tf_lso.policies` that each Keras has of its own. The mirrors, which are the
# modules of tf_lso with the old names, contain those of `tf.keras`.
_POLICIES = (
    *("Policy", "global_policy", "set_global_policy", "get_layer_policy"),
    *("ExperimentalPolicy", "experimental_global_policy", "set_policy"),
)


def _contents(spelled, namespace):
    """Return {name: object} for the module that takes the place of `spelled`."""
    # Not imported at the top, because the import registers a policy class with Keras.
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
    """Return the Keras that a spelling leads to."""
    root = spelled.split(".")[0]
    return keras_versions.package_of_tensorflow() if root == "tensorflow" else root


def module_for(namespace, spelled):
    """Return the module for a spelling of `namespace` that no longer exists.

    It is tf_lso's mirror, or a copy with other policies if the spelling leads to another
    Keras than `tf.keras`.
    """
    return _module_for(namespace, _package_of(spelled))


@functools.cache
def _module_for(namespace, package):
    mirror = importlib.import_module(f"tf_lso.{namespace}")
    if package == keras_versions.package_of_tensorflow():
        return mirror
    contents = {**vars(mirror), **_contents(package, namespace)}
    return added_modules.made(mirror.__name__, contents)
