"""List the methods and properties of the old LossScaleOptimizer that `tf-lso check` finds."""

# Maps each name to the error that a program gets with Keras 3, or to "" if the name works.
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

SCALING = ("get_scaled_loss", "get_unscaled_gradients")

# Keys in `symbols.SYMBOLS`: the old optimizer classes, and a function that returns one.
OPTIMIZERS = (
    "LossScaleOptimizer",
    "experimental.LossScaleOptimizer",
    "LossScaleOptimizerV1",
    "LossScaleOptimizerV3",
    "BaseLossScaleOptimizer",
    "enable_mixed_precision_graph_rewrite",
)
