"""All that tf_lso changes in TensorFlow and Keras, as one table.

`python -m tools.changes_page` writes a page from it. A test holds each function to the
names of its row.
"""

import types
from collections.abc import Callable
from typing import NamedTuple

from tf_lso import keras_versions, log
from tf_lso.patches import (
    attributes_keras2,
    attributes_keras3,
    callbacks,
    compiling,
    like,
    loading,
    loading_keras2,
    loading_keras3,
    namespaces,
    sessions,
    shells,
    spellings,
    train_checkpoint,
)
from tf_lso.patches import ledger as ledger_lib

# The moments; `Patch.when` explains them.
COMPILING, LOADING, INSTALL, LIKE = "compiling", "loading", "install", "like"

# The places.
TENSORFLOW, KERAS_2, KERAS_3, EACH = "TensorFlow", "Keras 2", "Keras 3", "each Keras"


class Patch(NamedTuple):
    """A row of the table.

    Attributes:
      where: one of the four places.
      target: the names that are changed there, for the page.
      when: COMPILING: at the first policy of tf_lso that is set, in its Keras, and by
        `install()`. LOADING: by `install()`, and in a Keras 2 at the first optimizer of it
        that is wrapped. INSTALL: by `install()`. LIKE: by `install(like="2.4")`.
      function: makes the change; gets the module with the public names of a Keras, and the
        ledger that undoes it.
      why: what is new, and why, for the page.
    """

    where: str
    target: str
    when: str
    function: Callable[[types.ModuleType, ledger_lib.Ledger], None]
    why: str


PATCHES = [
    Patch(
        KERAS_3,
        "`Model.compile`",
        COMPILING,
        compiling.wrap_in_keras3,
        "it wraps with `tf_lso` where a layer computes in float16. Keras's own wrapper is "
        "wrong under distribution, and knows no loss scale of a policy",
    ),
    Patch(
        KERAS_2,
        "`_get_optimizer` of models, `_set_optimizer` of those without eager execution",
        COMPILING,
        compiling.wrap_in_keras2,
        "`compile` wraps with `tf_lso`, likewise",
    ),
    Patch(
        EACH,
        "`make_train_function` of models",
        COMPILING,
        compiling.look_before_training,
        "a warning names each optimizer that trains float16 layers and scales no loss",
    ),
    Patch(
        EACH,
        "`optimizers.deserialize`",
        LOADING,
        loading.deserialize_all_generations,
        "optimizers and loss scales load from the configs of TensorFlow 2.0-2.15",
    ),
    Patch(
        EACH,
        "`Model.compile_from_config`",
        LOADING,
        loading.compile_all_generations,
        "the same in `load_model` of `.keras` files",
    ),
    Patch(
        KERAS_2,
        "`_is_keras_trackable`, `_save_state`, `_load_state`",
        LOADING,
        loading_keras2.save_in_keras_files,
        "`.keras` and `.weights.h5` files hold [all state](../reference/files.md): the "
        "slots, the loss scale and its count",
    ),
    Patch(
        KERAS_2,
        "`save_model_to_hdf5`, `save_optimizer_weights_to_hdf5_group`, "
        "`load_model_from_hdf5`",
        LOADING,
        loading_keras2.save_in_h5,
        "`.h5` files hold all state",
    ),
    Patch(
        KERAS_2,
        "`model_metadata`",
        LOADING,
        loading_keras2.save_kind_of_wrapper,
        "`.h5` files and SavedModels say that an optimizer is an experimental one",
    ),
    Patch(
        KERAS_2,
        "`load` and `save` of SavedModels",
        LOADING,
        loading_keras2.restore_saved_models,
        "SavedModels hold all state",
    ),
    Patch(
        KERAS_2,
        "`convert_to_legacy_optimizer`",
        LOADING,
        loading_keras2.convert_wrapped,
        "it takes wrapped optimizers",
    ),
    Patch(
        KERAS_2,
        "`_set_optimizer` of models without eager execution",
        LOADING,
        compiling.keep_wrappers_in_graphs,
        "it takes wrapped optimizers as they are",
    ),
    Patch(
        KERAS_3,
        "`deserialize` of losses and metrics",
        LOADING,
        loading_keras3.find_functions,
        "losses and metrics load by the names in `.h5` files",
    ),
    Patch(
        KERAS_3,
        "`Policy` and `PolicyV1` among the custom objects, `deserialize` of policies",
        LOADING,
        loading_keras3.find_policies,
        "the dtype policies of TensorFlow 2.1-2.15 load",
    ),
    Patch(
        KERAS_3,
        "`load_model`",
        LOADING,
        loading_keras3.load_models,
        "models of TensorFlow 2.0-2.15 load, with the state of their optimizers",
    ),
    Patch(
        KERAS_3,
        "`Model.load_weights`",
        LOADING,
        loading_keras3.load_weights,
        "`.weights.h5` files of TensorFlow 2.12-2.15 restore the optimizer too",
    ),
    Patch(
        KERAS_3,
        "`Model.save`, `Model.save_weights`",
        LOADING,
        loading_keras3.save_waiting_slots,
        "they save the slots of a checkpoint that was restored before the build",
    ),
    Patch(
        KERAS_3,
        "`from_config` of layers",
        LOADING,
        loading_keras3.take_batch_shapes,
        "layers load with the `batch_input_shape` of TensorFlow 2.0-2.15",
    ),
    Patch(
        EACH,
        "the old names",
        INSTALL,
        spellings.lead_to_tf_lso,
        "every [old spelling](../reference/old-names.md) leads to `tf_lso`, by import and "
        "by attribute. The modules that are added have a spec and a loader, from "
        "`sys.meta_path`, and reload",
    ),
    Patch(
        TENSORFLOW,
        "`tf.train.Checkpoint.read`",
        INSTALL,
        train_checkpoint.read_all_generations,
        "it restores [checkpoints of TensorFlow 2.0-2.15](../how-to/checkpoints.md) whole, "
        "or warns of what it leaves; `restore` calls it",
    ),
    Patch(
        TENSORFLOW,
        "`tf.train.Checkpoint.save`, `tf.train.Checkpoint.write`, "
        "`tf.train.CheckpointManager.save`",
        INSTALL,
        train_checkpoint.refuse_to_lose_slots,
        "they refuse to lose the slots of a checkpoint that was restored before the build",
    ),
    Patch(
        KERAS_3,
        "of optimizers: `lr`, `weights`, `get_weights`, `minimize`, `_decayed_lr`, "
        "`_create_all_weights`, `_create_slots`, `_create_hypers`",
        INSTALL,
        attributes_keras3.add_attributes,
        "added where they are missing: old programs use them",
    ),
    Patch(
        KERAS_3,
        "of optimizers: `__init__`, `apply_gradients`, `get_config`, "
        "`_backend_update_step`",
        INSTALL,
        attributes_keras3.take_arguments,
        "they take the arguments `lr` and `decay`, and those that `apply_gradients` had, "
        "which Keras 3 refuses or ignores. Classes that override what only Keras 2 called "
        "are refused",
    ),
    Patch(
        KERAS_3,
        "of optimizers: `learning_rate`, `_get_current_learning_rate`",
        INSTALL,
        attributes_keras3.call_schedules,
        "a schedule can be called, and gets a float32 step, as until TensorFlow 2.10; many "
        "take its root",
    ),
    Patch(
        KERAS_3,
        "`set_value`, `get_value` of `tf.keras.backend`",
        INSTALL,
        attributes_keras3.set_values,
        "they take optimizers' variables and loss scales; Keras 3's `set_value` fails for "
        "`optimizer.learning_rate`",
    ),
    Patch(
        KERAS_3,
        "`__int__`, `__float__` of variables",
        INSTALL,
        attributes_keras3.make_variables_numbers,
        "added in Keras 3.0, as later ones have them",
    ),
    Patch(
        KERAS_3,
        "`on_epoch_end` of `LearningRateScheduler` and `ReduceLROnPlateau`",
        INSTALL,
        callbacks.log_lr,
        "they log `lr` beside `learning_rate`",
    ),
    Patch(
        KERAS_3,
        "`tf.keras.optimizers.legacy`, `tf.keras.optimizers.experimental`",
        INSTALL,
        namespaces.add_namespaces,
        "Keras 3's optimizers stand for both",
    ),
    Patch(
        KERAS_3,
        "`tf.keras.backend.clear_session`",
        INSTALL,
        sessions.keep_policy,
        "it keeps the global policy, the names in a scope of custom objects, and the "
        "switches of `keras.config`; in other threads it clears nothing. Keras 3's also "
        "sets the policy back to float32, and the next model trains in float32",
    ),
    Patch(
        KERAS_3,
        "`showtraceback` of the shell, in a notebook",
        INSTALL,
        shells.show_hints,
        "[the hint](../how-to/run.md#with-the-keras-of-its-time) stands below an error "
        "that Keras 3 makes",
    ),
    Patch(
        KERAS_2,
        "of the newer optimizers: `weights`, `get_weights`, `_decayed_lr`, "
        "`_create_all_weights`, `_create_slots`, `_create_hypers`",
        INSTALL,
        attributes_keras2.add_attributes,
        "added where they are missing: old programs use them",
    ),
    Patch(
        KERAS_2,
        "of the newer optimizers: `learning_rate`, `get_config`, `_process_kwargs`, "
        "`_build_learning_rate`, `_compute_current_learning_rate`, `_update_step`",
        INSTALL,
        attributes_keras2.take_arguments,
        "they take the arguments `lr` and `decay`, and schedules get a float32 step",
    ),
    Patch(
        KERAS_2,
        "the classes of `tf.keras.optimizers`, and `get` and `deserialize` in it",
        LIKE,
        like.use_legacy_optimizers,
        "the legacy optimizers, as `tf.keras.optimizers` had them until TensorFlow 2.10",
    ),
]


def enable(when: str, package: str) -> bool:
    """Make the changes of a moment in a Keras; once is enough.

    Args:
      when: COMPILING, LOADING, INSTALL or LIKE.
      package: "keras" or "tf_keras".

    Returns:
      Whether this call did it.
    """

    def change(ledger: ledger_lib.Ledger) -> None:
        for patch in PATCHES:
            if patch.when == when and is_in(patch, package):
                patch.function(keras_versions.public(package), ledger)
        log.logger().debug("tf_lso has changed %s of %s", when, package)

    return ledger_lib.make((when, package), change) is not None


def is_in(patch: Patch, package: str) -> bool:
    """Whether a row is about a Keras. What is TensorFlow's changes with `keras`."""
    if patch.where == TENSORFLOW:
        return package == "keras"
    return patch.where in (
        EACH,
        KERAS_2 if keras_versions.is_keras2(package) else KERAS_3,
    )


def disable(when: str, package: str) -> None:
    """Leave a Keras as it was before `enable`."""
    ledger_lib.undo((when, package))
