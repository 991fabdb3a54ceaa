"""The LossScaleOptimizer, the adapters to inner optimizers, saved state and checks."""

from tf_lso.frameworks import environment

# Check TensorFlow before the modules below import TensorFlow.
environment.require_tensorflow()

# ruff: noqa: E402
# Both classes of LossScaleOptimizers must be imported before `config` reads a config. The
# module `experimental` defines one of the classes, and imports the other.
from tf_lso.optimizers import experimental as experimental
