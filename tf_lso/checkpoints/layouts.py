"""The layouts in which optimizers with loss scales were saved, as tables."""

from tf_lso.optimizers import table

# Where the optimizer itself stands below its wrapper: in TensorFlow 2.0-2.2; in Keras 3.
INNER = ("base_optimizer", "inner_optimizer")

# The step counter: of OptimizerV2, of all others.
ITERATIONS = ("iter", "_iterations")

# The variables of the loss scale, below the optimizer -> what they are. The second pair
# is that of Keras 3's own LossScaleOptimizer.
LOSS_SCALE = {
    ("loss_scale", "current_loss_scale"): "scale",
    ("loss_scale", "good_steps"): "count",
    ("dynamic_scale",): "scale",
    ("step_counter",): "count",
}

# Hyperparameters that are variables in a checkpoint, by the name there.
HYPERPARAMETERS = {
    "_learning_rate": "learning_rate",
    **{n: n for facts in table.OPTIMIZERS.values() for n in facts.hyperparameters},
}

# Variables that are neither slots nor hyperparameters, by the name in the file. The last
# is in .h5 files of OptimizerV2.
SCALARS = {
    "momentum_cache": "momentum_cache",
    "_u_product": "momentum_cache",
}
