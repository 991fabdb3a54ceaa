"""Other features of Keras 2 that old programs use and that Keras 3 lacks.

After `install()` the functions in LOADING read an old config that contains a
LossScaleOptimizer, and the methods in RESTORING refuse checkpoints that Keras 3 would read
only in part. Everything else works only with `--like`.
"""

from tf_lso.names.keras3_names import BY_ATTRIBUTE_TODAY

# Arguments that the optimizers of TensorFlow 2.0-2.15 accepted, but today's do not.
ARGUMENTS = ("lr", "decay", "jit_compile", "is_legacy_optimizer")
# Arguments that `apply_gradients` accepted.
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
# Functions that read configs of older versions.
LOADING = (
    "load_model model_from_config model_from_json optimizers.deserialize optimizers.get"
).split()
# Methods that read checkpoints and weights of older versions -> the classes that have them.
# () stands for models.
RESTORING: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("restore", "read", "restore_or_initialize"),
        ("Checkpoint", "CheckpointManager"),
    ),
    "load_weights": (),
}
# Functions of the backend that now refuse arguments that they accepted, or do more.
BACKEND = ("backend.set_value", "backend.get_value", "backend.clear_session")
# Attributes of an optimizer that programs called if they were schedules.
SCHEDULED = ("learning_rate",)
# Methods that TensorFlow called on an optimizer class up to 2.10, and methods that such
# methods called.
PROTOCOL = (
    "_resource_apply_dense _resource_apply_sparse "
    "_resource_apply_sparse_duplicate_indices _create_slots _prepare_local "
    "_set_hyper _get_hyper"
).split()
# The base class of schedules. Today optimizers call a schedule with an integer step.
SCHEDULE = "LearningRateSchedule"
# Callbacks that logged the learning rate under the name LOGGED.
CALLBACKS = ("LearningRateScheduler", "ReduceLROnPlateau")
LOGGED = "lr"
