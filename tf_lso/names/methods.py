"""Methods and properties of the old LossScaleOptimizer that `tf-lso check` searches for."""

# Name -> the error on today's Keras 3, or "" if the name still works.
METHODS = {
    **{
        name: f"AttributeError: Keras 3's LossScaleOptimizer has no {name}."
        for name in (
            "get_scaled_loss",
            "get_unscaled_gradients",
            "dynamic_counter",
            "_decayed_lr",
        )
    },
    "dynamic_growth_steps": "",
}

# The methods that scale the loss and unscale the gradients.
SCALING = ("get_scaled_loss", "get_unscaled_gradients")

# Symbols that return a LossScaleOptimizer when called.
OPTIMIZERS = (
    "LossScaleOptimizer",
    "experimental.LossScaleOptimizer",
    "LossScaleOptimizerV1",
    "LossScaleOptimizerV3",
    "BaseLossScaleOptimizer",
    "enable_mixed_precision_graph_rewrite",
)
