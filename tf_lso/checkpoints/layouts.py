"""The layouts in which optimizers with loss scales were saved, as tables."""

from tf_lso.optimizers import table

# Layout of a checkpoint -> what wrote it.
LAYOUTS = {
    "2.0-2.2": "tf.train.Checkpoint of TensorFlow 2.0-2.2, with a loss scale",
    "v2": "tf.train.Checkpoint of an OptimizerV2: TensorFlow 2.0-2.15, tf_keras",
    "new": "tf.train.Checkpoint of the newer optimizers: TensorFlow 2.9-2.15, tf_keras",
    "keras3": "tf.train.Checkpoint of Keras 3 or tf_lso",
    "model": "tf.train.Checkpoint without an optimizer",
}

# Where the optimizer itself stands below its wrapper: in TensorFlow 2.0-2.2; in Keras 3.
INNER = ("base_optimizer", "inner_optimizer")

# Attribute with the step counter: in OptimizerV2, in all others.
ITERATIONS = ("iter", "_iterations")

# Attributes that lead from the optimizer to a variable of the loss scale -> what it is.
# The last two are those of Keras 3's own LossScaleOptimizer.
LOSS_SCALE = {
    ("loss_scale", "current_loss_scale"): "scale",
    ("loss_scale", "good_steps"): "count",
    ("dynamic_scale",): "scale",
    ("step_counter",): "count",
}

# Name in a checkpoint of a hyperparameter that is a variable -> the hyperparameter.
HYPERPARAMETERS = {
    "_learning_rate": "learning_rate",
    **{n: n for facts in table.OPTIMIZERS.values() for n in facts.hyperparameters},
}

# Name in a file of variables that are neither slots nor hyperparameters -> what they are.
SCALARS = {
    "momentum_cache": "momentum_cache",
    "_u_product": "momentum_cache",
}
