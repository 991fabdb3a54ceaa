"""What old programs do beyond the names of the loss-scaling API, and Keras 3 does not.

`install()` reads what LOADING names where it has a LossScaleOptimizer, and refuses the
checkpoints of RESTORING that it would read in part. The rest works by `--like` alone.
"""

from tf_lso.names.keras3_names import BY_ATTRIBUTE_TODAY

# Arguments that the optimizers of TensorFlow 2.0-2.15 took, but today's do not.
ARGUMENTS = ("lr", "decay", "jit_compile", "is_legacy_optimizer")
# The same for `apply_gradients`.
APPLY_ARGUMENTS = (
    "name experimental_aggregate_gradients skip_gradients_aggregation".split()
)
# Attributes and methods that today's optimizers lack.
ATTRIBUTES = (
    "lr _decayed_lr get_weights weights minimize _create_all_weights _create_slots "
    "_create_hypers"
).split()
# Namespaces of optimizers that no longer exist.
OPTIMIZER_NAMESPACES = ("optimizers.legacy", "optimizers.experimental")
# Packages that can no longer be imported.
PACKAGES = (*BY_ATTRIBUTE_TODAY, "keras.api")
# Functions that read configs which older versions wrote.
LOADING = (
    "load_model model_from_config model_from_json optimizers.deserialize optimizers.get"
).split()
# Methods that read checkpoints and weights of older versions -> the functions that make
# their objects, or () for a method that only models have.
RESTORING: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("restore", "read", "restore_or_initialize"),
        ("Checkpoint", "CheckpointManager"),
    ),
    "load_weights": (),
}
# Functions of the backend that now refuse what they used to take, or do more.
BACKEND = ("backend.set_value", "backend.get_value", "backend.clear_session")
# An attribute of an optimizer that a program called where it was a schedule.
SCHEDULED = ("learning_rate",)
# Methods of an optimizer class that TensorFlow called up to 2.10, and what they called.
PROTOCOL = (
    "_resource_apply_dense _resource_apply_sparse "
    "_resource_apply_sparse_duplicate_indices _create_slots _prepare_local "
    "_set_hyper _get_hyper"
).split()
# A base class. Today optimizers call its instances with an integer step.
SCHEDULE = "LearningRateSchedule"
# Callbacks that used to log the learning rate under the name LOGGED.
CALLBACKS = ("LearningRateScheduler", "ReduceLROnPlateau")
LOGGED = "lr"
