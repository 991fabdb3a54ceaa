"""The layouts in which optimizers with loss scales were saved, as tables."""

from tf_lso import optimizer_table as table

# Layout of a checkpoint -> what wrote it.
LAYOUTS = {
    "2.0-2.2": "tf.train.Checkpoint of TensorFlow 2.0-2.2, with a loss scale",
    "v2": "tf.train.Checkpoint of an OptimizerV2: TensorFlow 2.0-2.15, tf_keras",
    "new": "tf.train.Checkpoint of the newer optimizers: TensorFlow 2.9-2.15, tf_keras",
    "keras3": "tf.train.Checkpoint of Keras 3 or tf_lso",
    "model": "tf.train.Checkpoint without an optimizer",
}

# Layout of a checkpoint -> the family that wrote it.
FAMILIES = {"2.0-2.2": "legacy", "v2": "legacy", "new": "new", "keras3": "keras3"}

# Keys of configs that only one family has, those of the others included.
_KEYS = {
    "keras3": {"loss_scale_factor", "gradient_accumulation_steps"},
    "new": {"is_legacy_optimizer"},
    "legacy": {"decay"},
}


def family_of_config(config):
    """Return the family whose optimizer has this config, None if it does not tell."""
    return next((f for f, keys in _KEYS.items() if keys & config.keys()), None)


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

# Attributes that lead to variables that traced steps of tf_lso use. Only SavedModels have
# them; the last only with a dynamic scale. They are no state: nothing is restored into them.
OF_TRACED_STEPS = (
    ("skipped_steps",),
    ("overflowed",),
    ("loss_scale", "skipped_in_a_row"),
)

# Name in a checkpoint of a hyperparameter that is a variable -> the hyperparameter.
HYPERPARAMETERS = {
    "_learning_rate": "learning_rate",
    **{n: n for facts in table.OPTIMIZERS.values() for n in facts.hyperparameters},
}

# Names that families give to one variable, in a file or as an attribute -> what it is.
SCALARS = {
    "momentum_cache": "momentum_cache",
    "_m_cache": "momentum_cache",
    "_u_product": "momentum_cache",
}

# A variable of tf_keras that each step computes from the schedule of the learning rate.
COMPUTED = "_current_learning_rate"

# Attributes of optimizers that lead to no slot and no scalar: the counter, and lists of
# other variables.
NO_STATE = (*ITERATIONS, COMPUTED, "_variables", "_trainable_variables")

# The group of .h5 files of Keras 2 for what `patches.loading_keras2` adds.
OWN_GROUP = "tf_lso_loss_scale"

# The slot of gradients that are accumulated over steps, which only Keras 3 has.
ACCUMULATED = "_accumulated_gradients"
