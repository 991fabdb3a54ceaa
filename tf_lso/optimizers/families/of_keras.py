"""The adapters to the optimizers of Keras 2 in the package keras (TensorFlow 2.12-2.15)."""

from tf_lso.frameworks import keras2_private, keras_versions, tf_private
from tf_lso.optimizers.families import keras2, keras2_legacy

_BASES = keras_versions.optimizer_bases("keras")
_OWN_WRAPPER = keras_versions.public("keras").mixed_precision.LossScaleOptimizer


class Legacy(keras2_legacy.Legacy):
    """The adapter to the legacy optimizers of the package keras."""

    package = "keras"
    base = _BASES["legacy"]
    # Without eager execution, `fit` checks whether the optimizer is an instance of this
    # private class of Keras. The public LossScaleOptimizer is another class.
    bases = (keras2_private.own_wrapper_of_legacy("keras"),)


class Newer(keras2.Newer):
    """The adapter to the newer optimizers of the package keras."""

    package = "keras"
    base = _BASES["new"]
    bases = (tf_private.delegating_trackable(), base, _OWN_WRAPPER)
