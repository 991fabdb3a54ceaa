"""List the methods and properties of the old LossScaleOptimizer that `tf-lso check` finds."""

# Maps the name of each method or property to the error that a program gets if it uses the
# method or property with Keras 3. The error is "" if the method or property still works.
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

# The methods of the old LossScaleOptimizer that scale the loss and unscale the gradients.
SCALING = ("get_scaled_loss", "get_unscaled_gradients")

# The old classes of LossScaleOptimizer, and a function that returns a LossScaleOptimizer. They
# have the names that the dict `symbols.SYMBOLS` uses for them.
OPTIMIZERS = (
    "LossScaleOptimizer",
    "experimental.LossScaleOptimizer",
    "LossScaleOptimizerV1",
    "LossScaleOptimizerV3",
    "BaseLossScaleOptimizer",
    "enable_mixed_precision_graph_rewrite",
)
