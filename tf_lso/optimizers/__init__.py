"""The LossScaleOptimizer, its adapters to inner optimizers, its state and its checks."""
