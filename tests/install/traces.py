"""Find out which attributes of TensorFlow and Keras have changed.

Programs that run in a process of their own use this module: they take a snapshot before a
change, and compare the attributes with the snapshot afterwards.
"""

import sys

_FRAMEWORKS = ("tensorflow", "keras", "tf_keras")
# Attributes that may change without tf_lso. Python creates the first three when a program reads
# a class or warns. TensorFlow sets the fourth when it saves. The last two hold the global
# policy, which a program may set.
_CHANGE_ANYWAY = {
    *("__annotations__", "__warningregistry__", "__slotnames__"),
    "_END_TIME_OF_LAST_WRITE",
    *("_global_policy", "_using_mixed_precision_policy"),
}
_ABSENT = object()


def create_lazy_objects(*packages):
    """Create all objects that are otherwise created at their first use.

    Call this before the first snapshot, so that these objects do not count as changes. The
    policies of tf_lso are among them: they register with Keras when they are made, and stay
    registered after `uninstall()`.

    Args:
      *packages: str, names of Keras packages, such as "tf_keras".
    """
    import tensorflow as tf

    from tf_lso import policies
    from tf_lso.install import old_modules
    from tf_lso.optimizers import (
        families,
        graph_rewrite,  # noqa: F401
    )

    for package in packages:
        policies.for_package(package)
        families.families_of_package(package)
    # TensorFlow 2.12-2.15 loads some packages lazily.
    old_modules.import_packages(("tensorflow", "keras"))
    tf.keras.Model  # noqa: B018
    for name in ("mixed_precision", "train"):  # these modules load when they are read
        getattr(tf.compat.v1, name).experimental.LossScale  # noqa: B018


def _modules_and_classes():
    """Yield the name and the object of all modules and classes of TensorFlow and Keras."""
    for name, module in sorted(sys.modules.items()):
        if name.split(".")[0] not in _FRAMEWORKS:
            continue
        yield name, module
        for value in list(vars(module).values()):
            if isinstance(value, type) and value.__module__ == name:
                yield f"{name}.{value.__qualname__}", value


def snapshot():
    """Return a snapshot: a dict from names to pairs (module or class, dict of its attributes).

    The snapshot also contains the custom objects of Keras, and `sys.meta_path`. It keeps all
    objects alive, so that no new object has the identity of an old one.
    """
    found = {name: (owner, dict(vars(owner))) for name, owner in _modules_and_classes()}
    for package in ("keras", "tf_keras"):
        if package in sys.modules:
            registered = sys.modules[package].utils.get_custom_objects()
            found[f"{package} registered"] = registered, dict(registered)
    finders = {str(index): finder for index, finder in enumerate(sys.meta_path)}
    found["sys.meta_path"] = sys.meta_path, finders
    return found


def changes_since(before):
    """Return a sorted list of the attributes that are not the same objects as in a snapshot."""
    after = snapshot()
    changes = list(before.keys() ^ after.keys())
    for name in before.keys() & after.keys():
        owner_before, attributes_before = before[name]
        owner_now, attributes_now = after[name]
        if owner_before is not owner_now:
            changes.append(f"{name} itself")
            continue
        for attribute in attributes_before.keys() | attributes_now.keys():
            value_before = attributes_before.get(attribute, _ABSENT)
            value_now = attributes_now.get(attribute, _ABSENT)
            if value_before is not value_now and attribute not in _CHANGE_ANYWAY:
                changes.append(f"{name}.{attribute}")
    return sorted(changes)
