"""The layouts in which optimizers with loss scales were saved, as tables."""

# Layout -> what wrote it. compat_docs/checkpoints.md has the same table.
LAYOUTS = {
    "2.0-2.2": "tf.train.Checkpoint of TensorFlow 2.0-2.2, with a loss scale",
    "v2": "tf.train.Checkpoint of an OptimizerV2: TensorFlow 2.0-2.15, tf_keras",
    "new": "tf.train.Checkpoint of the newer optimizers: TensorFlow 2.9-2.15, tf_keras",
    "keras3": "tf.train.Checkpoint of Keras 3 or tf_lso",
    "model": "tf.train.Checkpoint without an optimizer",
    "h5": "an .h5 file of Keras 2",
    "keras": "a .keras or .weights.h5 file",
}

# Attribute of a wrapper that holds the optimizer: in TensorFlow 2.0-2.2, in Keras 3.
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

# Name in a file of variables that are neither slots nor hyperparameters -> what they are.
SCALARS = {
    "momentum_cache": "momentum_cache",
    "_u_product": "momentum_cache",
}

# Class -> {name of a slot in variables of the newer optimizers of Keras 2: its name in
# OptimizerV2}, if the names differ. The class "" means all classes.
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

# The order in which the newer optimizers of Keras 2 make their slots. They make the slots
# of the first group for each variable, then those of the next group.
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
