"""Modules of Keras 2.6-2.12 that have another place in the package tf_keras.

tf_keras has the layout of Keras 2.15. A private module that is not listed here has the same
path below `tf_keras.src` as it had below `keras` in TensorFlow 2.6-2.12.
"""

# Maps the path of a module below `keras`, in any of these versions, to its path below
# `tf_keras.src`. If a package has moved, Python finds the modules inside it without a row.
HOMES = {
    "initializers.initializers_v2": "initializers.initializers",
    "layers.advanced_activations": "layers.activation",
    "layers.convolutional_recurrent": "layers.rnn",
    "layers.core.activity_regularization": (
        "layers.regularization.activity_regularization"
    ),
    "layers.core.dropout": "layers.regularization.dropout",
    "layers.core.flatten": "layers.reshaping.flatten",
    "layers.core.permute": "layers.reshaping.permute",
    "layers.core.repeat_vector": "layers.reshaping.repeat_vector",
    "layers.core.reshape": "layers.reshaping.reshape",
    "layers.core.spatial_dropout": "layers.core",
    "layers.cudnn_recurrent": "layers.rnn",
    "layers.dense_attention": "layers.attention",
    "layers.einsum_dense": "layers.core.einsum_dense",
    "layers.embeddings": "layers.core.embedding",
    "layers.local": "layers.locally_connected",
    "layers.merge": "layers.merging",
    "layers.multi_head_attention": "layers.attention.multi_head_attention",
    "layers.recurrent": "layers.rnn",
    "layers.recurrent_v2": "layers.rnn",
    "layers.rnn_cell_wrapper_v2": "layers.rnn.cell_wrappers",
    "layers.wrappers": "layers.rnn",
    "metrics.metrics": "metrics",
    "optimizer_experimental": "optimizers",
    "optimizer_v1": "optimizers.optimizer_v1",
    "optimizer_v2": "optimizers.legacy",
    "optimizers.optimizer_experimental": "optimizers",
    "optimizers.optimizer_v2": "optimizers.legacy",
    # `keras.optimizer_v2` also had modules that are not in `optimizers.legacy` now.
    "optimizers.legacy.learning_rate_schedule": (
        "optimizers.schedules.learning_rate_schedule"
    ),
    "optimizers.legacy.legacy_learning_rate_decay": (
        "optimizers.legacy_learning_rate_decay"
    ),
    "optimizers.legacy.optimizer": "optimizers.legacy.optimizer_v2",
    "optimizers.legacy.sgd": "optimizers.legacy.gradient_descent",
    "optimizers.legacy.utils": "optimizers.utils",
    "premade": "premade_models",
    "preprocessing.dataset_utils": "utils.dataset_utils",
    "preprocessing.image_dataset": "utils.image_dataset",
    "preprocessing.text_dataset": "utils.text_dataset",
    "preprocessing.timeseries": "utils.timeseries_dataset",
    "saving.experimental": "saving",
    "saving.hdf5_format": "saving.legacy.hdf5_format",
    "saving.model_config": "saving.legacy.model_config",
    "saving.save": "saving.legacy.save",
    "saving.saved_model": "saving.legacy.saved_model",
    "saving.saving_utils": "saving.legacy.saving_utils",
}

# Maps the path of a module below `tf_keras.src` to the paths of the modules that have some of
# its names now. Programs import these names from the first module.
NAMES = {
    "engine.base_layer": ("engine.input_spec",),
    "layers.merging": ("layers.merging.base_merge",),
    "utils.generic_utils": (
        "saving.object_registration",
        "saving.legacy.serialization",
    ),
}
