"""Variables of Keras 3 that share the values of variables of TensorFlow.

Keras 3 has no public way to make a variable from an existing one.
tests/test_private_names.py fails when it moves a name.
"""

import keras

# The variables of a dynamic scale, in the order of Keras 3's own wrapper -> its names.
NAMES = {"good_steps": "step_counter", "current_loss_scale": "dynamic_scale"}


class _View(keras.Variable):
    """A variable of Keras 3 that shares the value of a TensorFlow variable.

    With it everything that Keras 3 does with `optimizer.variables` works.
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
