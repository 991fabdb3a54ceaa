"""List the methods and properties of the old LossScaleOptimizer that `tf-lso check` finds."""

# Maps the name of a method or property to the error that its use raises on today's Keras 3. The
# error is "" if the method or property still works.
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
