"""What `install()` does beyond the names of the loss-scaling API.

A program that relies on one of these needs `install()` even where it spells the new
names. `tf_lso.installation` does these things; its tests hold this table against it.
"""

from tf_lso.names.today import BY_ATTRIBUTE_TODAY

# Arguments that the optimizers of TensorFlow 2.0-2.15 took, and today's do not.
ARGUMENTS = ("lr", "decay", "jit_compile", "is_legacy_optimizer")
# The same for `apply_gradients`.
APPLY_ARGUMENTS = (
    "name",
    "experimental_aggregate_gradients",
    "skip_gradients_aggregation",
)
# Attributes and methods that today's optimizers lack.
ATTRIBUTES = (
    "lr",
    "_decayed_lr",
    "get_weights",
    "weights",
    "minimize",
    "_create_all_weights",
    "_create_slots",
    "_create_hypers",
)
# Namespaces of optimizers that are gone.
OPTIMIZER_NAMESPACES = ("optimizers.legacy", "optimizers.experimental")
# Packages that cannot be imported any more.
PACKAGES = (*BY_ATTRIBUTE_TODAY, "keras.api")
# Functions that read configs which older versions wrote.
LOADING = (
    "load_model",
    "model_from_config",
    "model_from_json",
    "optimizers.deserialize",
    "optimizers.get",
)
# Functions of the backend that refuse what they took.
BACKEND = ("backend.set_value",)
# A base class: today its instances are called with an integer step.
SCHEDULE = "LearningRateSchedule"
# Callbacks that logged the learning rate as LOGGED.
CALLBACKS = ("LearningRateScheduler", "ReduceLROnPlateau")
LOGGED = "lr"
