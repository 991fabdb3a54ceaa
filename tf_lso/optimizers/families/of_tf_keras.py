"""The adapters to the optimizers of the package tf_keras."""

from tf_lso.frameworks import keras2_private, keras_versions, tf_private
from tf_lso.optimizers.families import keras2, keras2_legacy

_BASES = keras_versions.optimizer_bases("tf_keras")
_OWN_WRAPPER = keras_versions.public("tf_keras").mixed_precision.LossScaleOptimizer


class Legacy(keras2_legacy.Legacy):
    """The adapter to the legacy optimizers of the package tf_keras."""

    package = "tf_keras"
    base = _BASES["legacy"]
    # For the private class, see `of_keras.Legacy`.
    bases = (keras2_private.own_wrapper_of_legacy("tf_keras"),)


class Newer(keras2.Newer):
    """The adapter to the newer optimizers of the package tf_keras."""

    package = "tf_keras"
    base = _BASES["new"]
    bases = (tf_private.delegating_trackable(), base, _OWN_WRAPPER)
