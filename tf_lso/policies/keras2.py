"""What policies need from a package of Keras 2. Imported only if one is used."""

from tf_lso import kerases


class Keras2:
    """The dtype policies of a package of Keras 2, as `keras3` has them of Keras 3.

    Args:
      package: "keras" or "tf_keras".
    """

    def __init__(self, package):
        keras = kerases.public(package)
        self.PACKAGE = package
        self.Policy = keras.mixed_precision.Policy
        self.Layer = keras.layers.Layer
        # Taken before `install` replaces them.
        self.get_global = keras.mixed_precision.global_policy
        self.set_global = keras.mixed_precision.set_global_policy
        self.floatx = keras.backend.floatx
        self._register = keras.saving.register_keras_serializable

    @staticmethod
    def tell_of_device(policy_name):
        """Do nothing, since Keras 2 itself warns."""
        del policy_name

    def register(self, cls):
        """Make Keras 2 load layers and models that were saved with policies of `cls`."""
        return self._register("tf_lso", "Policy")(cls)
