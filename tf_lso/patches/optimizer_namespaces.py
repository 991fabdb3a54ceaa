"""Namespaces of optimizers that existed only in TensorFlow 2.9-2.15.

`legacy` had the older optimizers in 2.11-2.15, `experimental` the newer ones in 2.9-2.15.
Keras 3 has only one kind of optimizers, which takes the place of both.
"""

import sys

import tensorflow as tf

from tf_lso import keras_versions
from tf_lso import optimizer_table as table
from tf_lso.patches import added_modules

# Names in each. Those that this Keras 3 lacks are left out.
NAMESPACES = {
    namespace: (*table.in_namespace(namespace), "Optimizer")
    for namespace in ("legacy", "experimental")
}


def add_namespaces(keras, ledger):
    """Add both; Keras 3's optimizers stand for the older and the newer ones."""
    for namespace, names in NAMESPACES.items():
        name = f"keras.optimizers.{namespace}"
        module = added_modules.new(name, __doc__, __file__, path=[])
        for cls in names:
            if hasattr(keras.optimizers, cls):
                setattr(module, cls, getattr(keras.optimizers, cls))
        owners = {"keras": keras.optimizers}
        if keras_versions.package_of_tensorflow() == "keras":
            owners["tensorflow.keras"] = tf.keras.optimizers
        for root, owner in owners.items():
            ledger.set_attribute(owner, namespace, module)
            added_modules.let_import(ledger, f"{root}.optimizers.{namespace}", module)
            copied = sys.modules.get(f"{root}.optimizers", owner)
            if copied is not owner:
                ledger.set_attribute(copied, namespace, module)
