"""The old names: where they were, what became of them, and what tf_lso has instead.

The mirrors' test, `install`, `tf-lso run`, `tf-lso check`, `tf-lso migrate` and
compat_docs/reference/old-names.md all use these tables. Nothing here imports TensorFlow.

To get from an old dotted name to the new one, write `tf_lso` for `tf`.
"""

from tf_lso.names.methods import (
    ANYWHERE,
    CALLED,
    KNOWN,
    KNOWN_CALLED,
    METHODS,
    OPTIMIZERS,
    SCALING,
    Method,
)
from tf_lso.names.namespaces import NAMESPACES, PRIVATE, Use, mirror_names, modules_in
from tf_lso.names.spellings import CONTRIB, LEFT_ALONE, MODULES, TF_KERAS_MODULES
from tf_lso.names.symbols import (
    CHANGED,
    MISSING,
    POLICIES,
    SAME,
    SYMBOLS,
    Symbol,
)
from tf_lso.names.today import (
    BY_ATTRIBUTE_TODAY,
    KERAS_3_METHODS,
    KERAS_3_ONLY,
    KERAS_COPY,
    KERAS_COPY_BREAKS,
    MODULES_TODAY,
    PACKAGES_TODAY,
    SHARED,
)

__all__ = [
    "ANYWHERE",
    "BY_ATTRIBUTE_TODAY",
    "CALLED",
    "CHANGED",
    "CONTRIB",
    "KERAS_3_METHODS",
    "KERAS_3_ONLY",
    "KERAS_COPY",
    "KERAS_COPY_BREAKS",
    "KNOWN",
    "KNOWN_CALLED",
    "LEFT_ALONE",
    "METHODS",
    "MISSING",
    "MODULES",
    "MODULES_TODAY",
    "NAMESPACES",
    "OPTIMIZERS",
    "PACKAGES_TODAY",
    "POLICIES",
    "PRIVATE",
    "SAME",
    "SCALING",
    "SHARED",
    "SYMBOLS",
    "TF_KERAS_MODULES",
    "Method",
    "Symbol",
    "Use",
    "mirror_names",
    "modules_in",
]
