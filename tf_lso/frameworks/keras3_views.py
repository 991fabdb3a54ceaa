"""Variables of Keras 3 that share their values with variables of TensorFlow.

Keras 3 has no public function that makes such a variable, so this module uses private names.
tests/test_private_names.py fails if Keras 3 moves one of them.
"""

import keras

# Maps the name of a variable in tf_lso's dynamic loss scale to the name of the same variable in
# Keras 3's own LossScaleOptimizer. The items have the order of that optimizer's variables.
NAMES = {"good_steps": "step_counter", "current_loss_scale": "dynamic_scale"}


class _View(keras.Variable):
    """A variable of Keras 3 that shares its value with a TensorFlow variable.

    Keras 3 expects that `optimizer.variables` contains only Keras variables.
    """

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
