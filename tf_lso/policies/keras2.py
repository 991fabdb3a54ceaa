"""What policies need from a package of Keras 2. Imported only if one is used."""

from tf_lso import keras_versions


class Keras2:
    """What the module `keras3` has, of a package of Keras 2.

    Args:
      package: "keras" or "tf_keras".
    """

    def __init__(self, package):
        keras = keras_versions.public(package)
        self.PACKAGE = package
        self.Policy = keras.mixed_precision.Policy
        self.Layer = keras.layers.Layer
        # Taken before `install` replaces them.
        self.get_global = keras.mixed_precision.global_policy
        self.set_global = keras.mixed_precision.set_global_policy
        self.floatx = keras.backend.floatx

    @staticmethod
    def tell_of_device(policy_name):
        """Do nothing, since Keras 2 itself warns."""
        del policy_name
