"""The LossScaleOptimizer, its adapters to inner optimizers, its state and its checks."""

from tf_lso.frameworks import environment

environment.require_tensorflow()  # before the modules below import it

# ruff: noqa: E402
# Both optimizer classes must be imported before `config` reads a config.
from tf_lso.optimizers import experimental as experimental
