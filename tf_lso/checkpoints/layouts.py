"""The layouts in which optimizers with loss scales were saved, as tables."""

# Layout of a `tf.train.Checkpoint` -> what wrote it. `compat_docs/checkpoints.md` has
# the same table.
LAYOUTS = {
    "2.0-2.2": "tf.train.Checkpoint of TensorFlow 2.0-2.2, with a loss scale",
    "v2": "tf.train.Checkpoint of an OptimizerV2: TensorFlow 2.0-2.15, tf_keras",
    "new": "tf.train.Checkpoint of the newer optimizers: TensorFlow 2.9-2.15, tf_keras",
    "keras3": "tf.train.Checkpoint of Keras 3 or tf_lso",
    "model": "tf.train.Checkpoint without an optimizer",
}

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
    name: name.removeprefix("_")
    for name in (
        "learning_rate",
        "_learning_rate",
        "decay",
        "beta_1",
        "beta_2",
        "momentum",
        "rho",
        "beta",
        "learning_rate_power",
        "l1_regularization_strength",
        "l2_regularization_strength",
    )
}

# Variables that are neither slots nor hyperparameters, by the name in the file. The last
# is in .h5 files of OptimizerV2.
SCALARS = {
    "momentum_cache": "momentum_cache",
    "_u_product": "momentum_cache",
}

# What the newer optimizers of Keras 2 call the slots in the names of their variables,
# where that is another name than OptimizerV2's; "" stands for all classes.
VARIABLE_NAMES = {
    "": {"average": "average"},
    "SGD": {"m": "momentum", "momentum": "momentum"},
    "RMSprop": {"velocity": "rms", "average_gradient": "mg"},
    "Adamax": {"u": "v"},
    "Adadelta": {
        "accumulated_grad": "accum_grad",
        "accumulated_delta_var": "accum_var",
    },
}

# The order in which the newer optimizers of Keras 2 make their slots: groups, one after
# the other, of slots that are made together for each variable.
ORDER = {
    "SGD": (("momentum",),),
    "RMSprop": (("rms",), ("momentum",), ("mg",)),
    "Adam": (("m", "v"), ("vhat",)),
    "AdamW": (("m", "v"), ("vhat",)),
    "Adamax": (("m", "v"),),
    "Nadam": (("m", "v"),),
    "Adagrad": (("accumulator",),),
    "Adadelta": (("accum_grad", "accum_var"),),
    "Ftrl": (("accumulator", "linear"),),
    "Lion": (("m",),),
}
