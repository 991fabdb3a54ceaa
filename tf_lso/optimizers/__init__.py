"""The LossScaleOptimizer, the adapters to inner optimizers, saved state and checks."""

from tf_lso.frameworks import environment

# Check TensorFlow before the modules below import TensorFlow.
environment.require_tensorflow()

# ruff: noqa: E402
# The classes of LossScaleOptimizers must be imported before `config` reads a config. This
# import imports the experimental class and, with that class, the stable one.
from tf_lso.optimizers import experimental as experimental
