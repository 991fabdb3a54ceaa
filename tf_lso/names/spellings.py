"""All names under which programs import the old modules."""

from collections.abc import Iterator

from tf_lso.names.namespaces import NAMESPACES, PRIVATE

# Maps each package name under which programs for TensorFlow 2.0-2.15 imported Keras to the
# mirror of the package in tf_lso.
_KERAS = {
    "tensorflow.keras": "keras",
    "tensorflow.compat.v2.keras": "compat.v2.keras",
    "tensorflow.compat.v1.keras": "compat.v1.keras",
    "keras": "keras",
    "keras.src": "keras",
    "keras.api._v2.keras": "keras",
    "keras.api._v1.keras": "compat.v1.keras",
    "tensorflow.python.keras": "keras",
}
# Maps the names of tf_keras in the same way. tf_keras still has the API for its optimizers.
_TF_KERAS = {
    "tf_keras": "keras",
    "tf_keras.src": "keras",
    "tf_keras.api._v2.keras": "keras",
    "tf_keras.api._v1.keras": "compat.v1.keras",
}
# The packages whose private modules programs could import.
_WITH_PRIVATE = ("keras", "keras.src", "tensorflow.python.keras", "tf_keras.src")


def _keras_modules(prefixes: dict[str, str]) -> Iterator[tuple[str, str]]:
    for prefix, keras in prefixes.items():
        for namespace in (*NAMESPACES, *(PRIVATE if prefix in _WITH_PRIVATE else ())):
            if namespace.startswith("keras."):
                path = namespace.removeprefix("keras.")
                yield f"{prefix}.{path}", f"{keras}.{path}"


# Maps the full name of an old module to the mirror of this module in tf_lso.
MODULES = {
    **dict(_keras_modules(_KERAS)),
    **{
        f"tensorflow.{namespace}": namespace
        for namespace in NAMESPACES
        if "keras" not in namespace
    },
    "tensorflow.mixed_precision": "mixed_precision",
    "tensorflow.compat.v2.mixed_precision": "compat.v2.mixed_precision",
    "tensorflow.python.training.experimental.loss_scale": (
        "train.experimental.loss_scale"
    ),
}
TF_KERAS_MODULES = dict(_keras_modules(_TF_KERAS))
