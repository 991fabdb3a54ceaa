"""Tables of which module gets which mirror, and the code that applies them.

Modules that exist today keep their objects and get the old names as attributes. Modules
that no longer exist are put into `sys.modules`.
"""

import contextlib
import functools
import importlib
import sys

import tensorflow as tf

from tf_lso import keras_versions, names
from tf_lso import optimizer_table as table
from tf_lso.patches import added_modules

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

# Packages above such modules that no longer exist -> first name of the Keras that takes
# their place, or None for an empty package.
_PACKAGES = {
    "keras.api": None,
    "keras.api._v1": None,
    "keras.api._v2": None,
    "keras.api._v1.keras": "keras",
    "keras.api._v2.keras": "keras",
    "tensorflow.compat.v1.keras": "tensorflow",
    "tensorflow.compat.v2.keras": "tensorflow",
}

# An import would copy these packages, and the copy would miss changes in place.
_COPIED = ("tensorflow.compat", "tensorflow.compat.v1", "tensorflow.compat.v2")

# Attributes that led to a module that no longer exists -> its namespace.
_PATHS = {
    ("tensorflow", "mixed_precision"): "mixed_precision",
    ("tensorflow.compat.v2", "mixed_precision"): "compat.v2.mixed_precision",
    **{
        (
            f"tensorflow._api.v2.compat.{api}",
            "mixed_precision",
        ): "compat.v2.mixed_precision"
        for api in ("v2", "v1.compat.v2", "v2.compat.v2")
    },
    ("keras.src", "mixed_precision"): "keras.mixed_precision",
}


def lead_to_tf_lso(keras, ledger):
    """Make every old spelling lead to tf_lso, by import and by attribute.

    The modules that are added have a spec and a loader, from `sys.meta_path`, and reload.
    """
    # TensorFlow and `keras` together, and `tf_keras` once it is imported.
    is_tf_keras = keras_versions.package_of(keras) == "tf_keras"
    roots = ("tf_keras",) if is_tf_keras else ("tensorflow", "keras")
    import_packages(roots)
    if not is_tf_keras:
        _add_packages(ledger)
        for (module, attribute), namespace in _PATHS.items():
            # A Keras 2 has the attribute.
            if module.split(".")[0] not in keras_versions.imported_keras2():
                replacement = module_for(namespace, module)
                _set_all(ledger, sys.modules[module], {attribute: replacement})
    for spelled, namespace in _SPELLED.items():
        is_own = keras_versions.is_own_private(spelled)
        if spelled.split(".")[0] in roots and not is_own:
            _lead(ledger, spelled, namespace)


def import_packages(roots):
    """Import the packages that TensorFlow 2.12-2.15 has, so that they are changed in place.

    An import makes a copy of each that leads to `tf.keras`, and `tf` leads to the copy.
    Keras 3 has none of them, and of the others an import makes copies.
    """
    packages = {*_PACKAGES, *(spelled.rpartition(".")[0] for spelled in _SPELLED)}
    for name in () if keras_versions.has_keras3() else sorted(packages):
        if name.split(".")[0] in roots and "experimental" not in name:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)


def _add_packages(ledger):
    for name in _COPIED:
        if name not in sys.modules:
            added_modules.let_import(ledger, name, _reach(name))
    keras = {"keras": sys.modules["keras"], "tensorflow": tf.keras}
    for name, stands_for in _PACKAGES.items():
        if name in sys.modules:
            continue
        package = keras.get(stands_for) or added_modules.package(name, __file__)
        added_modules.let_import(ledger, name, package)
        parent, _, last = name.rpartition(".")
        if parent.startswith("keras"):
            ledger.set_attribute(sys.modules[parent], last, package)


def _lead(ledger, spelled, namespace):
    contents = _contents(spelled, namespace)
    loaded = sys.modules.get(spelled)
    if spelled in _IN_PLACE:
        owner = _reach(spelled)
        _set_all(ledger, owner, contents)
        if loaded is None:
            added_modules.let_import(ledger, spelled, owner)
        elif loaded is not owner:  # importing it made a copy
            _set_all(ledger, loaded, contents)
    elif loaded is None:
        added_modules.let_import(ledger, spelled, module_for(namespace, spelled))
    elif spelled.startswith(_OVERLAID):
        overlay = added_modules.copied(loaded, contents)
        added_modules.let_import(ledger, spelled, overlay)
        parent, _, last = spelled.rpartition(".")
        if vars(sys.modules[parent]).get(last) is loaded:
            ledger.set_attribute(sys.modules[parent], last, overlay)
    else:
        _set_all(ledger, loaded, contents)


def _reach(spelled):
    """Return the module that the attributes lead to."""
    root, *path = spelled.split(".")
    return functools.reduce(getattr, path, sys.modules[root])


def _set_all(ledger, owner, contents):
    for name, value in contents.items():
        if vars(owner).get(name) is not value:
            ledger.set_attribute(owner, name, value)


# --- The contents of the modules.

# Symbol -> attribute of `PolicyApi`.
_OF_POLICIES = {
    "Policy": "Policy",
    "DTypePolicy": "Policy",
    "experimental.Policy": "ExperimentalPolicy",
    "PolicyV1": "ExperimentalPolicy",
    "global_policy": "global_policy",
    "dtype_policy": "global_policy",
    "experimental.global_policy": "experimental_global_policy",
    "set_global_policy": "set_global_policy",
    "set_dtype_policy": "set_global_policy",
    "set_policy": "set_policy",
    "get_layer_policy": "get_layer_policy",
}


def _policies(root):
    """Return the policies of the Keras that a spelling with this first name leads to."""
    from tf_lso import policies  # late: to make them registers them with Keras

    of_tensorflow = root == "tensorflow"
    return policies.for_tensorflow() if of_tensorflow else policies.for_package(root)


def _contents(spelled, namespace):
    """Return {name: object} for the module that takes the place of `spelled`."""
    mirror = importlib.import_module(f"tf_lso.{namespace}")
    api = _policies(spelled.split(".")[0])
    contents = {
        name: getattr(api, _OF_POLICIES[use.symbol])
        if use.symbol in _OF_POLICIES
        else getattr(mirror, name)
        for name, use in names.mirror_names(namespace).items()
    }
    for inside in (*names.NAMESPACES, *names.PRIVATE):
        parent, _, last = inside.rpartition(".")
        own = keras_versions.is_own_private(f"{spelled}.{last}")
        if parent == namespace and not own:
            contents[last] = module_for(inside, spelled)
    return contents


def module_for(namespace, spelled):
    """Return the module for a spelling of `namespace` that no longer exists.

    It is tf_lso's mirror, or a copy with other policies if the spelling leads to another
    Keras than `tf.keras`.
    """
    return _module_for(namespace, spelled.split(".")[0])


@functools.cache
def _module_for(namespace, root):
    mirror = importlib.import_module(f"tf_lso.{namespace}")
    if _policies(root) is _policies("tensorflow"):
        return mirror
    return added_modules.copied(mirror, _contents(root, namespace))


# --- Namespaces of optimizers that existed only in TensorFlow 2.9-2.15.

# Names in each. `legacy` had the older optimizers in 2.11-2.15, `experimental` the newer
# ones in 2.9-2.15.
NAMESPACES = {
    namespace: (*table.in_namespace(namespace), "Optimizer")
    for namespace in ("legacy", "experimental")
}


def add_namespaces(keras, ledger):
    """Add both; Keras 3's optimizers stand for the older and the newer ones."""
    owners = {"keras": keras.optimizers}
    if keras_versions.package_of_tensorflow() == "keras":
        owners["tensorflow.keras"] = tf.keras.optimizers
    for namespace, classes in NAMESPACES.items():
        here = {n: c for n, c in vars(keras.optimizers).items() if n in classes}
        name = f"keras.optimizers.{namespace}"
        module = added_modules.package(name, __file__, here)
        for root, owner in owners.items():
            ledger.set_attribute(owner, namespace, module)
            added_modules.let_import(ledger, f"{root}.optimizers.{namespace}", module)
            copied = sys.modules.get(f"{root}.optimizers", owner)
            if copied is not owner:
                ledger.set_attribute(copied, namespace, module)
