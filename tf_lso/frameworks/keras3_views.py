"""Variables of Keras 3 that share their values with variables of TensorFlow.

Keras 3 has no public function that makes such a variable, so this module uses private names.
"""

import keras

# Maps the names of variables in tf_lso's dynamic loss scale to those in Keras 3's own
# LossScaleOptimizer, in the order of that optimizer's variables.
NAMES = {"good_steps": "step_counter", "current_loss_scale": "dynamic_scale"}


class _View(keras.Variable):
    """Keras 3 expects that `optimizer.variables` contains only Keras variables."""

    def __init__(self, variable, name):
        self.__dict__["_viewed"] = variable
        dtype = variable.dtype.name
        super().__init__(0, shape=(), dtype=dtype, trainable=False, name=name)
        self._autocast = False

    def _initialize(self, value):
        self._value = self._viewed
        self._shape = tuple(self._viewed.shape)


def views(loss_scale):
    """Return {Keras 3's name: Keras variable} for the variables of a loss scale."""
    named = dict(loss_scale.named_variables())
    names = sorted(named, key=[*NAMES, *named].index)
    return {NAMES.get(n, n): _View(named[n], NAMES.get(n, n)) for n in names}
