"""Mirror of `tf.compat.v2`, as far as it had loss scaling: of `tf` itself."""

import sys as _sys

from tf_lso import keras, mixed_precision, train
from tf_lso import unknown as _unknown

__all__ = [
    "keras",
    "mixed_precision",
    "train",
]

# `import tf_lso.compat.v2.keras.mixed_precision` finds them too.
for _mirror in (
    keras,
    keras.mixed_precision,
    keras.mixed_precision.experimental,
    mixed_precision,
    mixed_precision.experimental,
    train,
    train.experimental,
):
    _sys.modules[_mirror.__name__.replace("tf_lso", __name__, 1)] = _mirror

__getattr__ = _unknown.of_mirror(__name__, __all__)
