"""Methods and properties of the old LossScaleOptimizer that `tf-lso check` searches for."""

# Maps a name to the error that the name causes on today's Keras 3. The error is "" if the
# name still works.
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

# The keys in `symbols.SYMBOLS` of all classes and functions that return a
# LossScaleOptimizer.
OPTIMIZERS = (
    "LossScaleOptimizer",
    "experimental.LossScaleOptimizer",
    "LossScaleOptimizerV1",
    "LossScaleOptimizerV3",
    "BaseLossScaleOptimizer",
    "enable_mixed_precision_graph_rewrite",
)
