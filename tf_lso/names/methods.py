"""The methods and properties of the old LossScaleOptimizer."""

import dataclasses

ANYWHERE = "anywhere"  # no other object has an attribute of this name
CALLED = "called"  # other objects have the attribute too, but not as a method
KNOWN = "known"  # a use only if the object is known to be a LossScaleOptimizer
KNOWN_CALLED = "known, called"  # the same, and reading without calling still works
BY_NAME = (ANYWHERE, CALLED)


@dataclasses.dataclass(frozen=True)
class Method:
    """A method or property of the old LossScaleOptimizer."""

    does: str  # what tf_lso's optimizer has under this name; reports print it
    seen: str = KNOWN  # when an attribute of this name counts as a use of the old API
    current: str = ""  # what Keras 3 has instead, if anything
    # In TensorFlow 2.12-2.15 a wrapper around an optimizer of this module lacks the name.
    lacking: str = ""
    # False if the name is a tensor in the stable class of TensorFlow 2.4-2.15. Programs for
    # the experimental class call it nevertheless.
    callable: bool = True
    # The error on today's Keras 3, as reports print it, or "" if nothing breaks. `{}` stands
    # for the name.
    breaks: str = "AttributeError: Keras 3's LossScaleOptimizer has no {}."


_NEW, _LEGACY = "tf.keras.optimizers", "tf.keras.optimizers.legacy"

_DELEGATED = "Reads and sets the inner optimizer's."
_INNER = "Works as on the old inner optimizers, even if Keras 3 has no such method."
METHODS = {
    "get_scaled_loss": Method(
        "Has it: takes a tensor or a callable.",
        ANYWHERE,
        "optimizer.scale_loss(loss)",
    ),
    "get_unscaled_gradients": Method(
        "Has it, so that clipping and accumulation see true gradients.",
        ANYWHERE,
        "nothing: apply_gradients unscales",
    ),
    "dynamic_counter": Method(
        "Has it: finite steps since the scale changed.", ANYWHERE
    ),
    "dynamic_growth_steps": Method(
        "Has it: None if the scale is fixed.", ANYWHERE, breaks=""
    ),
    "_decayed_lr": Method(
        "Has it: the learning rate of this step, in the requested dtype.",
        CALLED,
        "optimizer.learning_rate",
        _NEW,
    ),
    "loss_scale": Method(
        "Has it: a tensor, and from the experimental class one that can be called.",
        CALLED,
        "optimizer.dynamic_scale",
        callable=False,
    ),
    "dynamic": Method("Has it: whether the scale changes."),
    "_optimizer": Method("Has it: the inner optimizer.", KNOWN, "inner_optimizer"),
    "lr": Method(_DELEGATED, KNOWN, "learning_rate"),
    "decay": Method(_DELEGATED, lacking=_NEW),
    "beta_1": Method(_DELEGATED, KNOWN, "inner_optimizer.beta_1", _NEW),
    "beta_2": Method(_DELEGATED, KNOWN, "inner_optimizer.beta_2", _NEW),
    "weights": Method("Has it.", KNOWN, "variables", _NEW),
    "variables": Method(
        "Its list can be called.",
        KNOWN_CALLED,
        "optimizer.variables",
        breaks="TypeError: Keras 3's `variables` is a list, and cannot be called.",
    ),
    "compute_gradients": Method(_INNER, lacking=_LEGACY),
    **dict.fromkeys(("minimize", "set_weights"), Method(_INNER)),
    **dict.fromkeys(
        "get_gradients get_updates get_weights get_slot get_slot_names add_slot "
        "add_weight".split(),
        Method(_INNER, lacking=_NEW),
    ),
}

# The methods that scale the loss and unscale the gradients.
SCALING = ("get_scaled_loss", "get_unscaled_gradients")

# Symbols that return a LossScaleOptimizer when called.
OPTIMIZERS = (
    "LossScaleOptimizer",
    "experimental.LossScaleOptimizer",
    "LossScaleOptimizerV1",
    "LossScaleOptimizerV3",
    "BaseLossScaleOptimizer",
    "enable_mixed_precision_graph_rewrite",
)
