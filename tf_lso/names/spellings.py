"""List all names under which programs import the old modules."""

from collections.abc import Iterator

from tf_lso.names.namespaces import NAMESPACES, PRIVATE

# Programs import Keras under these package names. tf_keras still has the old API for its own
# optimizers, and the others had it in TensorFlow 2.0-2.15. Maps each name to the module of
# tf_lso that replaces it, without the leading `tf_lso.`.
_KERAS = {
    "tensorflow.keras": "keras",
    "tensorflow.compat.v2.keras": "compat.v2.keras",
    "tensorflow.compat.v1.keras": "compat.v1.keras",
    "keras": "keras",
    "keras.src": "keras",
    "keras.api._v2.keras": "keras",
    "keras.api._v1.keras": "compat.v1.keras",
    "tensorflow.python.keras": "keras",
    "tf_keras": "keras",
    "tf_keras.src": "keras",
    "tf_keras.api._v2.keras": "keras",
    "tf_keras.api._v1.keras": "compat.v1.keras",
}
# The packages that also contain the private modules of Keras.
_WITH_PRIVATE = ("keras", "keras.src", "tensorflow.python.keras", "tf_keras.src")


def _keras_modules() -> Iterator[tuple[str, str]]:
    for prefix, keras in _KERAS.items():
        for namespace in (*NAMESPACES, *(PRIVATE if prefix in _WITH_PRIVATE else ())):
            if namespace.startswith("keras."):
                path = namespace.removeprefix("keras.")
                yield f"{prefix}.{path}", f"{keras}.{path}"


# Maps the full names of the old modules to the modules of tf_lso that replace them.
MODULES = {
    **dict(_keras_modules()),
    **{
        f"tensorflow.{namespace}": namespace
        for namespace in NAMESPACES
        if "keras" not in namespace
    },
    "tensorflow.mixed_precision": "mixed_precision",
    "tensorflow.compat.v2.mixed_precision": "compat.v2.mixed_precision",
    **{
        f"tensorflow.python.training.{namespace}": f"train.{namespace}"
        for namespace in (
            "experimental.loss_scale",
            "experimental.loss_scale_optimizer",
            "experimental.mixed_precision",
        )
    },
}
