"""List the old names for loss scaling that TensorFlow 2.16-2.21, with Keras 3, still has."""

from tf_lso.names.namespaces import NAMESPACES, PRIVATE

# Namespaces of `tf` that also contain names unrelated to loss scaling.
SHARED = ("train.experimental", "compat.v1.train.experimental")

# Packages that a program can reach as attributes but cannot import. For instance, the attribute
# `tf.compat.v1.keras` is not a module, but an object that loads Keras when a program uses it.
BY_ATTRIBUTE_TODAY = ("tensorflow.compat.v1.keras", "tensorflow.compat.v2.keras")

# TensorFlow's own copy of Keras 2.6, which still has some of the old names.
_KERAS_COPY = "tensorflow.python.keras"

# The package that contains the private modules of TensorFlow's own loss scaling.
_TRAINING = "tensorflow.python.training.experimental"

_POLICY_NAMES = ("Policy", "global_policy", "set_global_policy")
_DEVICE = ("log_device_compatibility_check",)
_V1 = ("mixed_precision", "mixed_precision.experimental", "train.experimental")
# Maps each old module that still exists to the old names that it still contains.
MODULES_TODAY = {
    **{
        f"{keras}.mixed_precision": tuple(NAMESPACES["keras.mixed_precision"])
        for keras in ("keras", "tensorflow.keras", *BY_ATTRIBUTE_TODAY)
    },
    "tensorflow.train.experimental": (),
    "tensorflow.compat.v2.train.experimental": (),
    **{f"tensorflow.compat.v1.{n}": tuple(NAMESPACES[f"compat.v1.{n}"]) for n in _V1},
    **{
        f"{_TRAINING}.{module}": tuple(PRIVATE[f"train.experimental.{module}"])
        for module in ("loss_scale", "loss_scale_optimizer")
    },
    f"{_TRAINING}.mixed_precision": (
        "disable_mixed_precision_graph_rewrite_v1",
        "enable_mixed_precision_graph_rewrite_v1",
    ),
    f"{_KERAS_COPY}.mixed_precision": (),
    f"{_KERAS_COPY}.mixed_precision.loss_scale_optimizer": (
        "LossScaleOptimizer",
        "LossScaleOptimizerV1",
    ),
    f"{_KERAS_COPY}.mixed_precision.policy": (*_POLICY_NAMES, "PolicyV1"),
    f"{_KERAS_COPY}.mixed_precision.device_compatibility_check": _DEVICE,
    **{
        f"{keras}.mixed_precision": ("LossScaleOptimizer", *_POLICY_NAMES)
        for keras in ("tf_keras", "tf_keras.src", "tf_keras.api._v2.keras")
    },
    "tf_keras.api._v1.keras.mixed_precision": ("LossScaleOptimizer",),
    "tf_keras.src.mixed_precision.loss_scale_optimizer": (
        "LossScaleOptimizer",
        "LossScaleOptimizerV3",
        "BaseLossScaleOptimizer",
    ),
    "tf_keras.src.mixed_precision.policy": _POLICY_NAMES,
    "tf_keras.src.mixed_precision.device_compatibility_check": _DEVICE,
}

# A program that uses one of these names of `keras` or `tf.keras` was written for Keras 3.
KERAS_3_ONLY = (
    *"config distribution dtype_policies ops quantizers random tree".split(),
    "optimizers.LossScaleOptimizer",
    *(
        f"mixed_precision.{name}"
        for name, use in NAMESPACES["keras.mixed_precision"].items()
        if use.versions.startswith("2.16")
    ),
)
# Methods that only the LossScaleOptimizer of Keras 3 has.
KERAS_3_METHODS = ("scale_loss", "stateless_apply")
