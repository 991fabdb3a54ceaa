"""Define the stable and the experimental LossScaleOptimizer.

The package also contains the adapters to the wrapped optimizers, and the code that saves and
loads the state of a LossScaleOptimizer.
"""

from tf_lso.frameworks import environment

# Refuse unsupported versions of TensorFlow and Keras before the modules below import them.
environment.require_tensorflow()

# ruff: noqa: E402
# This module imports that of the stable class. Both put their classes into `config.CLASSES`.
from tf_lso.optimizers import experimental as experimental
