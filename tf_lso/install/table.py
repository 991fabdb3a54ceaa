"""The table of all changes that tf_lso makes to TensorFlow and Keras.

`tools/docs` writes a page from this table. For each row, a test compares
the names in the row with the names that the row's function changes.
"""

from collections.abc import Callable
from typing import NamedTuple

from tf_lso.frameworks import keras2_private, keras3_private, keras_versions
from tf_lso.install import (
    compiling,
    earlier_keras2,
    import_keras,
    keras3_sessions,
    like,
    loading_configs,
    loading_keras2,
    loading_keras3,
    old_modules,
    train_checkpoint,
)
from tf_lso.install import ledger as ledger_lib
from tf_lso.optimizers import slots
from tf_lso.optimizers.families import family

# Values of `Patch.when`: INSTALL by `install()`, and WRAPPED in a single optimizer when it is
# wrapped. A range such as "2.0-2.10" means by `install(like=...)` for these versions.
INSTALL, WRAPPED = "install", "wrapped"
# Values of `Patch.where`, which names the package that the change affects.
TENSORFLOW, KERAS_2, KERAS_3, EACH = "TensorFlow", "Keras 2", "Keras 3", "each Keras"


class Patch(NamedTuple):
    """A row of the table.

    The arguments of `function` are the module with the public names of a Keras package, and
    the ledger that undoes the change. If `when` is WRAPPED, `function` gets the optimizer
    instead, and the change lasts as long as the optimizer. The page shows the first sentence
    of its docstring.
    """

    target: str  # This text lists the changed names for readers of the page.
    where: str
    when: str
    function: Callable[..., None]

    @property
    def is_of_like(self) -> bool:
        return self.when not in (INSTALL, WRAPPED)

    @property
    def why(self) -> str:
        return " ".join((self.function.__doc__ or "").split())


# fmt: off
PATCHES = [Patch(*row) for row in (
    ("`Model.compile`", KERAS_3, INSTALL, compiling.wrap_in_keras3),
    ("`_get_optimizer` of models, `_set_optimizer` of those without eager execution",
     KERAS_2, INSTALL, compiling.wrap_in_keras2),
    ("`_get_optimizer` of models", KERAS_3, INSTALL, compiling.add_get_optimizer),
    ("`make_train_function` of models", EACH, INSTALL, compiling.look_before_training),

    ("`optimizers.deserialize`", EACH, INSTALL, loading_configs.deserialize_all_generations),
    ("`Model.compile_from_config`", EACH, INSTALL, loading_configs.compile_all_generations),
    ("`_is_keras_trackable`, `_save_state`, `_load_state`",
     KERAS_2, INSTALL, loading_keras2.save_in_keras_files),
    ("`save_model_to_hdf5`, `save_optimizer_weights_to_hdf5_group`, `load_model_from_hdf5`",
     KERAS_2, INSTALL, loading_keras2.save_in_h5),
    ("`load` of SavedModels", KERAS_2, INSTALL, loading_keras2.restore_saved_models),
    ("`Policy` and `PolicyV1` among the custom objects, `deserialize` of policies",
     KERAS_3, INSTALL, loading_keras3.find_policies),
    ("`load_model`", KERAS_3, INSTALL, loading_keras3.load_models),
    ("`save_optimizer_weights_to_hdf5_group`", KERAS_3, INSTALL, loading_keras3.save_in_h5),

    ("the old names", EACH, INSTALL, old_modules.lead_to_tf_lso),
    ("`tf.train.Checkpoint.read`",
     TENSORFLOW, INSTALL, train_checkpoint.refuse_other_generations),
    ("`save` and `write` of `tf.train.Checkpoint`, `save` of `tf.train.CheckpointManager`",
     TENSORFLOW, INSTALL, train_checkpoint.refuse_to_lose_slots),
    ("`tf.keras.backend.clear_session`", KERAS_3, INSTALL, keras3_sessions.keep_policy),
    ("`showtraceback` of the shell, in a notebook",
     KERAS_3, INSTALL, keras3_sessions.show_hints),

    ("`tf.keras.__version__`", KERAS_2, "2.0-2.15", earlier_keras2.say_version),
    ("`loss_scale` and `get_config` of the experimental LossScaleOptimizer",
     KERAS_2, "2.4-2.15", earlier_keras2.show_scale_as_tensor),
    ("`import keras`, attributes of its modules",
     KERAS_2, "2.0-2.15", import_keras.lead_to_tf_keras),
    ("the classes of `tf.keras.optimizers`, and `get` and `deserialize` in it",
     KERAS_2, "2.0-2.10", like.use_legacy_optimizers),
    ("`Model.distribute_reduction_method`",
     KERAS_2, "2.0-2.10", earlier_keras2.log_first_replica),
    ("`apply` and `add_update` of layers",
     KERAS_2, "2.0-2.8", earlier_keras2.add_layer_methods),
    (f"{', '.join(f'`{name}`' for name in earlier_keras2.OPTIONS)} of dataset options, "
     "`tf.data.experimental.MapVectorizationOptions`",
     TENSORFLOW, "2.0-2.6", earlier_keras2.ignore_dataset_options),
    ("`Sequential.predict_classes`, `Sequential.predict_proba`",
     KERAS_2, "2.0-2.5", earlier_keras2.predict_classes),
    ("`tf.keras.experimental.LinearCosineDecay`, `NoisyLinearCosineDecay` there",
     KERAS_2, "2.0-2.4", earlier_keras2.add_schedules),
    ("`_aggregate_gradients`, `_clip_gradients`, `apply_gradients` of legacy optimizers",
     KERAS_2, "2.0-2.3", like.aggregate_gradients),

    ("`_is_wrapped_by_loss_scale_optimizer`", EACH, WRAPPED, keras2_private.mark),
    ("`_lookup_dependency` of it and of its lists of variables",
     EACH, WRAPPED, slots.ListedSlots.restore_by_path),
    ("`load_own_variables`", EACH, WRAPPED, family.load_by_wrapper),
    ("`loss_scale_factor`", KERAS_3, WRAPPED, keras3_private.scale_nothing),
    ("`_all_reduce_sum_gradients`", KERAS_3, WRAPPED, keras3_private.sum_gradients_only_once),
    ("`assign` and `assign_add` of its step counter",
     KERAS_3, WRAPPED, keras3_private.count_steps_once),
    ("`_distribution_strategy`", KERAS_3, WRAPPED, keras3_private.build_under),
    ("`apply` of the parts of a MultiOptimizer",
     KERAS_3, WRAPPED, keras3_private.tolerate_no_gradients),
)]
# fmt: on


def is_in(patch: Patch, package: str) -> bool:
    """Return whether a row applies to a Keras package. TensorFlow's rows apply to "keras"."""
    generation = KERAS_2 if keras_versions.is_keras2(package) else KERAS_3
    is_tensorflow = patch.where == TENSORFLOW and package == "keras"
    return is_tensorflow or patch.where in (EACH, generation)


def change(ledger: ledger_lib.Ledger, package: str, chosen: str | None) -> None:
    for patch in PATCHES:
        if patch.is_of_like:
            is_due = like.is_in(chosen, patch.when)
        else:
            is_due = patch.when == INSTALL
        if is_due and is_in(patch, package):
            patch.function(keras_versions.public(package), ledger)
