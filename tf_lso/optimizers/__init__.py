"""Define the stable and the experimental LossScaleOptimizer."""

from tf_lso.frameworks import environment

environment.require_tensorflow()

# ruff: noqa: E402
# This module imports that of the stable class. Both put their classes into `config.CLASSES`.
from tf_lso.optimizers import experimental as experimental
