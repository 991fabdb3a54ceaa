"""Describe what the old classes and functions do in tf_lso and in today's TensorFlow."""

import dataclasses

# These values say what became of an old name in TensorFlow 2.16 and later, with Keras 3.

MISSING = "missing"
# The name still exists, but the class or function behaves differently.
CHANGED = "changed"
SAME = "same"


@dataclasses.dataclass(frozen=True)
class Symbol:
    """A class or function of the old API. Reports and pages print the texts in its fields."""

    # A sentence that says what the class or function does in tf_lso.
    does: str
    # What replaces the class or function in today's TensorFlow, or "".
    current: str = ""
    # A sentence that says what today's class or function does differently, or "".
    breaks: str = ""
    # A sentence that says what goes wrong on TensorFlow 2.12-2.15, with Keras 2, or "".
    keras_2: str = ""


_KERAS, _CONFIG = "tf.keras.mixed_precision", "tf.keras.config"

SYMBOLS = {
    "LossScaleOptimizer": Symbol(
        "The legacy API and Keras 3's on one object, around Keras 3 and tf_keras "
        "optimizers.",
        f"{_KERAS}.LossScaleOptimizer",
        "Keras 3's class has no get_scaled_loss, get_unscaled_gradients, loss_scale or "
        "dynamic, accepts no fixed scale, and a NaN on any replica but the first destroys "
        "the weights.",
    ),
    "experimental.LossScaleOptimizer": Symbol(
        "A subclass of the stable class that takes a loss scale: a number, 'dynamic', "
        "or a LossScale object; `loss_scale` can be called and used as a tensor.",
        f"{_KERAS}.LossScaleOptimizer",
    ),
    "LossScaleOptimizerV1": Symbol(
        "The experimental class, under its internal name of TensorFlow 2.4-2.8.",
        f"{_KERAS}.LossScaleOptimizer",
    ),
    **dict.fromkeys(
        ("LossScaleOptimizerV3", "BaseLossScaleOptimizer"),
        Symbol(
            "The stable class, under its internal name of TensorFlow 2.9-2.15.",
            f"{_KERAS}.LossScaleOptimizer",
        ),
    ),
    "Policy": Symbol("The dtype policy of `tf.keras`.", f"{_KERAS}.DTypePolicy"),
    "experimental.Policy": Symbol(
        "A dtype policy with a loss scale, with which `compile` wraps the optimizer "
        "after `install()`.",
        f"{_KERAS}.DTypePolicy",
    ),
    "PolicyV1": Symbol(
        "The experimental policy, under its internal name of TensorFlow 2.4-2.8.",
        f"{_KERAS}.DTypePolicy",
    ),
    "global_policy": Symbol("Returns the global policy.", f"{_CONFIG}.dtype_policy"),
    "experimental.global_policy": Symbol(
        "Returns the global policy, with its loss scale.", f"{_CONFIG}.dtype_policy"
    ),
    "set_global_policy": Symbol(
        "Sets the global policy. After `install()`, `compile` then wraps optimizers with "
        "tf_lso's class.",
        f"{_CONFIG}.set_dtype_policy",
        "Under mixed_float16 `compile` wraps the optimizer with Keras 3's "
        "LossScaleOptimizer, and a NaN on any replica but the first destroys the "
        "weights.",
    ),
    "set_policy": Symbol(
        "Sets the global policy, with its loss scale. After `install()`, `compile` "
        "wraps optimizers by it.",
        f"{_CONFIG}.set_dtype_policy",
    ),
    "get_layer_policy": Symbol(
        "Returns the dtype policy of a layer.", "layer.dtype_policy"
    ),
    "LossScale": Symbol("The base class of loss scales, for subclasses of your own."),
    "FixedLossScale": Symbol(
        "A loss scale that never changes.",
        "tf.keras.optimizers.Optimizer(loss_scale_factor=...)",
    ),
    "DynamicLossScale": Symbol(
        "A loss scale that grows and shrinks, by any multiplier.",
        f"{_KERAS}.LossScaleOptimizer",
    ),
    "get": Symbol("Makes a loss scale from a number, 'dynamic', a config or None."),
    "MixedPrecisionLossScaleOptimizer": Symbol(
        "Loss scaling around an optimizer of `tf.compat.v1.train`.",
        "tf.compat.v1.mixed_precision.MixedPrecisionLossScaleOptimizer",
    ),
    "enable_mixed_precision_graph_rewrite": Symbol(
        "Wraps an optimizer of Keras 3, tf_keras or `tf.compat.v1.train`, and turns on "
        "TensorFlow's graph rewrite to float16.",
        f"{_KERAS}.set_global_policy('mixed_float16')",
        "It refuses the optimizers of Keras 3.",
        "It refuses the optimizers of tf.keras.optimizers, and accepts those of "
        "tf.keras.optimizers.legacy.",
    ),
    "disable_mixed_precision_graph_rewrite": Symbol(
        "Turns off TensorFlow's graph rewrite to float16.",
        f"{_KERAS}.set_global_policy('float32')",
    ),
    "log_device_compatibility_check": Symbol(
        "Warns once if this machine may compute slowly under a policy.",
    ),
    "DTypePolicy": Symbol("Keras 3's dtype policy.", f"{_KERAS}.DTypePolicy"),
    "dtype_policy": Symbol("Returns the global policy.", f"{_CONFIG}.dtype_policy"),
    "set_dtype_policy": Symbol(
        "Sets the global policy.", f"{_CONFIG}.set_dtype_policy"
    ),
}
