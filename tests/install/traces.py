"""What TensorFlow and the Kerases look like, down to each attribute. For programs."""

import sys

_FRAMEWORKS = ("tensorflow", "keras", "tf_keras")
# What reading makes, what TensorFlow notes of its own saving, and the global policy, which
# programs set.
_NO_CHANGES = {
    *("__annotations__", "__warningregistry__", "__slotnames__"),
    "_END_TIME_OF_LAST_WRITE",
    *("_global_policy", "_using_mixed_precision_policy"),
}
_ABSENT = object()


def settle(*packages):
    """Load what makes objects of its own at the first use; the packages are Kerases.

    The policies register with Keras when they are made, which no uninstall undoes.
    """
    import tensorflow as tf

    from tf_lso import policies
    from tf_lso.install import spellings
    from tf_lso.optimizers import (
        families,
        graph_rewrite,  # noqa: F401
    )

    for package in packages:
        policies.for_package(package)
        families.families_of_package(package)
    # TensorFlow 2.12-2.15 has packages that are loaded when they are asked for.
    spellings.import_packages(("tensorflow", "keras"))
    tf.keras.Model  # noqa: B018
    for name in ("mixed_precision", "train"):  # wrappers load when read
        getattr(tf.compat.v1, name).experimental.LossScale  # noqa: B018


def _places():
    """Yield (name, module or class) of all that is theirs."""
    for name, module in sorted(sys.modules.items()):
        if name.split(".")[0] not in _FRAMEWORKS:
            continue
        yield name, module
        for value in list(vars(module).values()):
            if isinstance(value, type) and value.__module__ == name:
                yield f"{name}.{value.__qualname__}", value


def taken():
    """Return {name: (module or class, its attributes)}; it keeps them all alive."""
    found = {name: (place, dict(vars(place))) for name, place in _places()}
    for name in ("keras", "tf_keras"):
        if name in sys.modules:
            registered = sys.modules[name].utils.get_custom_objects()
            found[f"{name} registered"] = registered, dict(registered)
    finders = {str(n): finder for n, finder in enumerate(sys.meta_path)}
    return {**found, "sys.meta_path": (sys.meta_path, finders)}


def changed(before):
    """Return the names of what is not the same object as in `before`, sorted."""
    after = taken()
    names = list(before.keys() ^ after.keys())
    for name in before.keys() & after.keys():
        (place, old), (place_now, new) = before[name], after[name]
        if place is not place_now:
            names.append(f"{name} itself")
            continue
        names += [
            f"{name}.{attribute}"
            for attribute in old.keys() | new.keys()
            if old.get(attribute, _ABSENT) is not new.get(attribute, _ABSENT)
            and attribute not in _NO_CHANGES
        ]
    return sorted(names)
