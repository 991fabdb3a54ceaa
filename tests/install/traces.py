"""Find out which attributes of TensorFlow and Keras have changed.

Programs that run in a process of their own use this module: they take a snapshot before a
change, and compare the attributes with the snapshot afterwards.
"""

import sys

_FRAMEWORKS = ("tensorflow", "keras", "tf_keras")
# Attributes that may change without tf_lso. Python creates the first three when a program reads
# a class or warns. TensorFlow sets the fourth when it saves. The last two hold the global
# policy, which a program may set.
_NO_CHANGES = {
    *("__annotations__", "__warningregistry__", "__slotnames__"),
    "_END_TIME_OF_LAST_WRITE",
    *("_global_policy", "_using_mixed_precision_policy"),
}
_ABSENT = object()


def settle(*packages):
    """Create all objects that are otherwise created at their first use.

    Call this before the first snapshot, so that these objects do not count as changes. The
    policies of tf_lso are among them: they register with Keras when they are made, and stay
    registered after `uninstall()`.

    Args:
      *packages: str, names of Keras packages, such as "tf_keras".
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
    # TensorFlow 2.12-2.15 loads some packages lazily.
    spellings.import_packages(("tensorflow", "keras"))
    tf.keras.Model  # noqa: B018
    for name in ("mixed_precision", "train"):  # these modules load when they are read
        getattr(tf.compat.v1, name).experimental.LossScale  # noqa: B018


def _places():
    """Yield the name and the object of all modules and classes of TensorFlow and Keras."""
    for name, module in sorted(sys.modules.items()):
        if name.split(".")[0] not in _FRAMEWORKS:
            continue
        yield name, module
        for value in list(vars(module).values()):
            if isinstance(value, type) and value.__module__ == name:
                yield f"{name}.{value.__qualname__}", value


def taken():
    """Return a snapshot: a dict from names to pairs (module or class, dict of its attributes).

    The snapshot also contains the custom objects of Keras, and `sys.meta_path`. It keeps all
    objects alive, so that no new object has the identity of an old one.
    """
    found = {name: (place, dict(vars(place))) for name, place in _places()}
    for name in ("keras", "tf_keras"):
        if name in sys.modules:
            registered = sys.modules[name].utils.get_custom_objects()
            found[f"{name} registered"] = registered, dict(registered)
    finders = {str(n): finder for n, finder in enumerate(sys.meta_path)}
    return {**found, "sys.meta_path": (sys.meta_path, finders)}


def changed(before):
    """Return a sorted list of the attributes that are not the same objects as in a snapshot."""
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
