"""Define the stable and the experimental LossScaleOptimizer.

The package also contains the adapters to the inner (wrapped) optimizers, and the code that
saves and loads the state of a LossScaleOptimizer.
"""

from tf_lso.frameworks import environment

# Raise an error for unsupported versions of TensorFlow and Keras before the modules below
# import TensorFlow.
environment.require_tensorflow()

# ruff: noqa: E402
# This import also loads the module of the stable class, as `config.CLASSES` needs both classes.
from tf_lso.optimizers import experimental as experimental
