"""The old optimizer's methods and properties."""

import dataclasses

ANYWHERE = "anywhere"  # no other object has an attribute of this name
CALLED = "called"  # other objects have it too, but not as a method
KNOWN = "known"  # a use only if the object is known to be a LossScaleOptimizer
KNOWN_CALLED = "known, called"  # the same, and only calling it breaks
BY_NAME = (ANYWHERE, CALLED)


@dataclasses.dataclass(frozen=True)
class Method:
    """A method or property of the old LossScaleOptimizer."""

    does: str  # what tf_lso's optimizer has under this name, for people
    seen: str = KNOWN  # when an attribute of this name counts as a use of the old API
    current: str = ""  # what Keras 3 has instead, if anything
    lacking: str = ""  # the module whose optimizers, wrapped in 2.12-2.15, lack it
    # False if the stable class of TensorFlow 2.4-2.15 has a tensor of this name, which a
    # program may call all the same.
    callable: bool = True
    # What happens on today's Keras 3, for people; "" if nothing breaks. `{}` is the name.
    breaks: str = "AttributeError: Keras 3's LossScaleOptimizer has no {}."


_NEW, _LEGACY = "tf.keras.optimizers", "tf.keras.optimizers.legacy"

_DELEGATED = "Reads and sets the inner optimizer's."
_INNER = "Does what the inner optimizer's did, also where Keras 3 has none."
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
    "dynamic_counter": Method("Has it: finite steps since the scale moved.", ANYWHERE),
    "dynamic_growth_steps": Method(
        "Has it: None where the scale is fixed.", ANYWHERE, breaks=""
    ),
    "_decayed_lr": Method(
        "Has it: the learning rate of this step, in the dtype asked for.",
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
    "dynamic": Method("Has it: whether the scale moves."),
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
