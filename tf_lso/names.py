"""The old names: where they stood, what became of them, what tf_lso puts there.

The one table that the mirrors' test, `install`, the reports of `tf-lso run` and
`tf-lso check`, and compat_docs/api.md are made from. Nothing here imports TensorFlow.

One rule leads from an old dotted name to the new one: write `tf_lso` for `tf`.
"""

import dataclasses

# --- What today's TensorFlow (2.16 and later, with Keras 3) has under an old name.

MISSING = "missing"  # no such name: AttributeError or ImportError
CHANGED = "changed"  # a name of today that does something else
SAME = "same"  # works as it did


@dataclasses.dataclass(frozen=True)
class Symbol:
    """One class or function of the old API, under whatever names it stood.

    Attributes:
      does: what tf_lso's one does, for people.
      breaks: what happens on today's TensorFlow where the name is still there but
        does something else, for people.
      current: what today's own API has instead, or "" where it has nothing.
    """

    does: str
    breaks: str = ""
    current: str = ""


SYMBOLS = {
    "LossScaleOptimizer": Symbol(
        "The legacy API and Keras 3's on one object, around Keras 3 and tf_keras "
        "optimizers.",
        "Keras 3's class has no get_scaled_loss, get_unscaled_gradients, loss_scale or "
        "dynamic, takes no fixed scale, and loses the weights to a NaN on any replica "
        "but the first.",
        "tf.keras.mixed_precision.LossScaleOptimizer",
    ),
    "experimental.LossScaleOptimizer": Symbol(
        "A subclass of the stable class that takes a loss scale: a number, 'dynamic', "
        "or a LossScale object; `loss_scale` can be called and used as a tensor.",
        current="tf.keras.mixed_precision.LossScaleOptimizer",
    ),
    "LossScaleOptimizerV1": Symbol(
        "The experimental class, under its internal name of TensorFlow 2.4-2.8.",
        current="tf.keras.mixed_precision.LossScaleOptimizer",
    ),
    "LossScaleOptimizerV3": Symbol(
        "The stable class, under its internal name of TensorFlow 2.9-2.15.",
        current="tf.keras.mixed_precision.LossScaleOptimizer",
    ),
    "BaseLossScaleOptimizer": Symbol(
        "The stable class, under its internal name of TensorFlow 2.9-2.15.",
        current="tf.keras.mixed_precision.LossScaleOptimizer",
    ),
    "Policy": Symbol(
        "The dtype policy of the Keras that `tf.keras` is.",
        current="tf.keras.mixed_precision.DTypePolicy",
    ),
    "experimental.Policy": Symbol(
        "A dtype policy that carries a loss scale, with which `compile` wraps the "
        "optimizer.",
        current="tf.keras.mixed_precision.DTypePolicy",
    ),
    "PolicyV1": Symbol(
        "The experimental policy, under its internal name of TensorFlow 2.4-2.8.",
        current="tf.keras.mixed_precision.DTypePolicy",
    ),
    "global_policy": Symbol(
        "Returns the policy in force.",
        current="tf.keras.config.dtype_policy",
    ),
    "experimental.global_policy": Symbol(
        "Returns the policy in force, with its loss scale.",
        current="tf.keras.config.dtype_policy",
    ),
    "set_global_policy": Symbol(
        "Sets the policy in force, and lets `compile` wrap optimizers by tf_lso.",
        "Under mixed_float16 `compile` wraps the optimizer by Keras 3's "
        "LossScaleOptimizer, which loses the weights to a NaN on any replica but the "
        "first.",
        current="tf.keras.config.set_dtype_policy",
    ),
    "set_policy": Symbol(
        "Sets the policy in force, with its loss scale, and lets `compile` wrap "
        "optimizers by it.",
        current="tf.keras.config.set_dtype_policy",
    ),
    "get_layer_policy": Symbol(
        "Returns the dtype policy of a layer.",
        current="layer.dtype_policy",
    ),
    "LossScale": Symbol(
        "The base class of loss scales, for subclasses of your own.",
    ),
    "FixedLossScale": Symbol(
        "A loss scale that never moves.",
        current="tf.keras.optimizers.Optimizer(loss_scale_factor=...)",
    ),
    "DynamicLossScale": Symbol(
        "A loss scale that grows and shrinks, by any multiplier.",
        current="tf.keras.mixed_precision.LossScaleOptimizer",
    ),
    "get": Symbol(
        "Makes a loss scale of a number, 'dynamic', a config or None.",
    ),
    "MixedPrecisionLossScaleOptimizer": Symbol(
        "Loss scaling around an optimizer of `tf.compat.v1.train`.",
        current="tf.compat.v1.mixed_precision.MixedPrecisionLossScaleOptimizer",
    ),
    "enable_mixed_precision_graph_rewrite": Symbol(
        "Wraps an optimizer of Keras 3, tf_keras or `tf.compat.v1.train`, and turns "
        "TensorFlow's graph rewrite to float16 on.",
        "It refuses the optimizers of Keras 3.",
        "tf.keras.mixed_precision.set_global_policy('mixed_float16')",
    ),
    "disable_mixed_precision_graph_rewrite": Symbol(
        "Turns TensorFlow's graph rewrite to float16 off.",
        current="tf.keras.mixed_precision.set_global_policy('float32')",
    ),
    "log_device_compatibility_check": Symbol(
        "Tells, once, whether this machine computes fast in a policy's dtype.",
    ),
    "DTypePolicy": Symbol(
        "Keras 3's dtype policy.", current="tf.keras.mixed_precision.DTypePolicy"
    ),
    "dtype_policy": Symbol(
        "Returns the policy in force.", current="tf.keras.config.dtype_policy"
    ),
    "set_dtype_policy": Symbol(
        "Sets the policy in force.", current="tf.keras.config.set_dtype_policy"
    ),
}


@dataclasses.dataclass(frozen=True)
class Use:
    """A symbol under one public name.

    Attributes:
      symbol: key of `SYMBOLS`.
      versions: TensorFlow versions that had the name, as text.
      today: MISSING, CHANGED or SAME.
    """

    symbol: str
    versions: str
    today: str = MISSING


_LOSS_SCALES = ("LossScale", "FixedLossScale", "DynamicLossScale")
_REWRITES = (
    "enable_mixed_precision_graph_rewrite",
    "disable_mixed_precision_graph_rewrite",
)


def _each(symbols, versions, today=MISSING):
    return {symbol: Use(symbol, versions, today) for symbol in symbols}


_STABLE = {
    "LossScaleOptimizer": Use("LossScaleOptimizer", "2.4-2.15", CHANGED),
    "Policy": Use("Policy", "2.4-2.15", SAME),
    "global_policy": Use("global_policy", "2.4-2.15", SAME),
    "set_global_policy": Use("set_global_policy", "2.4-2.15", CHANGED),
    **_each(("DTypePolicy", "dtype_policy", "set_dtype_policy"), "2.16-", SAME),
}
_EXPERIMENTAL = {
    "LossScaleOptimizer": Use("experimental.LossScaleOptimizer", "2.0-2.8"),
    "Policy": Use("experimental.Policy", "2.0-2.8"),
    "get_layer_policy": Use("get_layer_policy", "2.2-2.8"),
    "global_policy": Use("experimental.global_policy", "2.0-2.8"),
    "set_policy": Use("set_policy", "2.0-2.8"),
}
_V1 = {
    **_each(_LOSS_SCALES, "2.4-2.21", SAME),
    "MixedPrecisionLossScaleOptimizer": Use(
        "MixedPrecisionLossScaleOptimizer", "2.4-2.21", SAME
    ),
    _REWRITES[0]: Use(_REWRITES[0], "2.4-2.21", CHANGED),
    _REWRITES[1]: Use(_REWRITES[1], "2.4-2.21", SAME),
}
_V2 = {
    "keras.mixed_precision": _STABLE,
    "keras.mixed_precision.experimental": _EXPERIMENTAL,
    "mixed_precision.experimental": _each(_LOSS_SCALES, "2.1-2.8"),
    "train.experimental": {
        **_each(_LOSS_SCALES, "2.0-2.8"),
        **_each(_REWRITES, "2.0-2.5"),
    },
}

# Old public namespace, without its leading `tf.` -> name -> use.
NAMESPACES = {
    **_V2,
    # Until today's Keras only the optimizer was there.
    "compat.v1.keras.mixed_precision": {
        **_STABLE,
        **_each(("Policy", "global_policy", "set_global_policy"), "2.16-", SAME),
    },
    "compat.v1.keras.mixed_precision.experimental": {
        **_EXPERIMENTAL,
        "Policy": Use("experimental.Policy", "2.0-2.2"),
        "get_layer_policy": Use("get_layer_policy", "2.2"),
        "global_policy": Use("experimental.global_policy", "2.0-2.2"),
        "set_policy": Use("set_policy", "2.0-2.2"),
    },
    "compat.v1.mixed_precision": _V1,
    "compat.v1.mixed_precision.experimental": _each(_LOSS_SCALES, "2.1-2.21", SAME),
    "compat.v1.train.experimental": {
        name: dataclasses.replace(use, versions="2.0-2.21") for name, use in _V1.items()
    },
    **{f"compat.v2.{namespace}": names for namespace, names in _V2.items()},
}

# Private modules that programs imported all the same. Each has a mirror too.
_PRIVATE_STABLE = {
    "loss_scale_optimizer": {
        "LossScaleOptimizer": Use("LossScaleOptimizer", "2.4-2.15"),
        **_each(("LossScaleOptimizerV3", "BaseLossScaleOptimizer"), "2.9-2.15"),
        "LossScaleOptimizerV1": Use("LossScaleOptimizerV1", "2.4-2.8"),
    },
    "policy": {
        "Policy": Use("Policy", "2.4-2.15"),
        "PolicyV1": Use("PolicyV1", "2.4-2.8"),
        "global_policy": Use("global_policy", "2.4-2.15"),
        "set_global_policy": Use("set_global_policy", "2.4-2.15"),
        "set_policy": Use("set_policy", "2.0-2.8"),
    },
    "device_compatibility_check": _each(
        ("log_device_compatibility_check",), "2.2-2.15"
    ),
}
_PRIVATE_EXPERIMENTAL = {
    "loss_scale_optimizer": {
        "LossScaleOptimizer": Use("experimental.LossScaleOptimizer", "2.0-2.3"),
    },
    "policy": {
        name: _EXPERIMENTAL[name] for name in ("Policy", "global_policy", "set_policy")
    },
    "device_compatibility_check": _each(("log_device_compatibility_check",), "2.2-2.3"),
}
PRIVATE = {
    **{
        f"keras.mixed_precision.{module}": names
        for module, names in _PRIVATE_STABLE.items()
    },
    **{
        f"keras.mixed_precision.experimental.{module}": names
        for module, names in _PRIVATE_EXPERIMENTAL.items()
    },
    "train.experimental.loss_scale": _each((*_LOSS_SCALES, "get"), "2.0-2.8"),
}


def mirror_names(namespace):
    """Return the names of a mirror, public or private: name -> `Use`.

    A package that has only modules has none.
    """
    return {**NAMESPACES, **PRIVATE}.get(namespace, {})


# --- Every spelling of the modules, as they are imported.

# Prefix of a Keras that programs of 2.0-2.15 imported -> the same in tf_lso.
KERAS_PREFIXES = {
    "tensorflow.keras": "keras",
    "tensorflow.compat.v2.keras": "compat.v2.keras",
    "tensorflow.compat.v1.keras": "compat.v1.keras",
    "keras": "keras",
    "keras.src": "keras",
    "keras.api._v2.keras": "keras",
    "keras.api._v1.keras": "compat.v1.keras",
    "tensorflow.python.keras": "keras",
}
# tf_keras still has the API for its own optimizers.
TF_KERAS_PREFIXES = {
    "tf_keras": "keras",
    "tf_keras.src": "keras",
    "tf_keras.api._v2.keras": "keras",
    "tf_keras.api._v1.keras": "compat.v1.keras",
}


# Those whose private modules could be imported.
_WITH_PRIVATE = ("keras", "keras.src", "tensorflow.python.keras", "tf_keras.src")


def _keras_modules(prefixes):
    for prefix, keras in prefixes.items():
        stable = f"{keras}.mixed_precision"
        yield f"{prefix}.mixed_precision", stable
        yield f"{prefix}.mixed_precision.experimental", f"{stable}.experimental"
        if prefix not in _WITH_PRIVATE:
            continue
        for module in _PRIVATE_STABLE:
            yield f"{prefix}.mixed_precision.{module}", f"{stable}.{module}"
            yield (
                f"{prefix}.mixed_precision.experimental.{module}",
                f"{stable}.experimental.{module}",
            )


# Full module name as imported -> namespace in tf_lso.
MODULES = {
    **dict(_keras_modules(KERAS_PREFIXES)),
    **{
        f"tensorflow.{namespace}": namespace
        for namespace in NAMESPACES
        if "keras" not in namespace
    },
    "tensorflow.mixed_precision": "mixed_precision",
    "tensorflow.compat.v2.mixed_precision": "compat.v2.mixed_precision",
    "tensorflow.python.training.experimental.loss_scale": (
        "train.experimental.loss_scale"
    ),
}
TF_KERAS_MODULES = dict(_keras_modules(TF_KERAS_PREFIXES))

# Gone since TensorFlow 2.0; nothing can stand for it: name -> what to use.
CONTRIB = {
    "tensorflow.contrib.mixed_precision.LossScaleOptimizer": (
        "tf.keras.mixed_precision.LossScaleOptimizer"
    ),
    "tensorflow.contrib.mixed_precision.ExponentialUpdateLossScaleManager": (
        "tf.mixed_precision.experimental.DynamicLossScale"
    ),
    "tensorflow.contrib.mixed_precision.FixedLossScaleManager": (
        "tf.mixed_precision.experimental.FixedLossScale"
    ),
}

# --- What today's TensorFlow has of these spellings, as it was seen in 2.16-2.21.

# Namespaces that hold more than loss scaling: their other names are none of ours.
SHARED = ("train.experimental", "compat.v1.train.experimental")

# These can be reached as attributes, and not be imported: `tf.compat.v1.keras` is an
# object that loads Keras when it is used, and no module.
BY_ATTRIBUTE_TODAY = ("tensorflow.compat.v1.keras", "tensorflow.compat.v2.keras")

# A copy of Keras 2.6 that TensorFlow keeps for itself.
KERAS_COPY = "tensorflow.python.keras"
KERAS_COPY_BREAKS = (
    "TensorFlow's own copy of Keras 2.6, apart from tf.keras: it raises TypeError for "
    "tf.keras's optimizers, and its policies do not reach tf.keras's layers."
)

# Packages that are there, without the old modules that were in them.
PACKAGES_TODAY = ("keras.src",)

_POLICY_NAMES = ("Policy", "global_policy", "set_global_policy")
# Full module name as imported -> the old names that it has today. A module that is not
# here is gone.
MODULES_TODAY = {
    **{
        f"{keras}.mixed_precision": tuple(_STABLE)
        for keras in ("keras", "tensorflow.keras", *BY_ATTRIBUTE_TODAY)
    },
    "tensorflow.train.experimental": (),
    "tensorflow.compat.v2.train.experimental": (),
    **{
        f"tensorflow.{namespace}": tuple(NAMESPACES[namespace])
        for namespace in (
            "compat.v1.mixed_precision",
            "compat.v1.mixed_precision.experimental",
            "compat.v1.train.experimental",
        )
    },
    "tensorflow.python.training.experimental.loss_scale": (*_LOSS_SCALES, "get"),
    f"{KERAS_COPY}.mixed_precision": (),
    f"{KERAS_COPY}.mixed_precision.loss_scale_optimizer": (
        "LossScaleOptimizer",
        "LossScaleOptimizerV1",
    ),
    f"{KERAS_COPY}.mixed_precision.policy": (*_POLICY_NAMES, "PolicyV1"),
    f"{KERAS_COPY}.mixed_precision.device_compatibility_check": (
        "log_device_compatibility_check",
    ),
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
    "tf_keras.src.mixed_precision.device_compatibility_check": (
        "log_device_compatibility_check",
    ),
}

# --- The old optimizer's methods and properties.

ANYWHERE = "anywhere"  # no other object has a name like this
CALLED = "called"  # others have it too, but not as a method
KNOWN = "known"  # a use only where the object is seen to be a LossScaleOptimizer
KNOWN_CALLED = "known, called"  # the same, and only a call of it breaks


@dataclasses.dataclass(frozen=True)
class Method:
    """A method or property of the old LossScaleOptimizer.

    Attributes:
      breaks: what happens on today's Keras 3, for people; "" where nothing breaks.
      does: what tf_lso's optimizer has under the name, for people.
      seen: ANYWHERE, CALLED, KNOWN or KNOWN_CALLED: what makes an attribute of this
        name a use of the old API.
      current: what Keras 3 has instead, or "".
    """

    breaks: str
    does: str
    seen: str = KNOWN
    current: str = ""


def _gone(name, does, seen=KNOWN, current=""):
    return Method(
        f"AttributeError: Keras 3's LossScaleOptimizer has no {name}.",
        does,
        seen,
        current,
    )


_DELEGATED = "Reads and sets the inner optimizer's."
_INNER = "Does what the inner optimizer's did, also where Keras 3 has none."
METHODS = {
    "get_scaled_loss": _gone(
        "get_scaled_loss",
        "Has it: takes a tensor or a callable.",
        ANYWHERE,
        "optimizer.scale_loss(loss)",
    ),
    "get_unscaled_gradients": _gone(
        "get_unscaled_gradients",
        "Has it, so that clipping and accumulation see true gradients.",
        ANYWHERE,
        "nothing: apply_gradients unscales",
    ),
    "dynamic_counter": _gone(
        "dynamic_counter", "Has it: finite steps since the scale moved.", ANYWHERE
    ),
    "dynamic_growth_steps": Method(
        "", "Has it: None where the scale is fixed.", ANYWHERE
    ),
    "_decayed_lr": _gone(
        "_decayed_lr",
        "Has it: the learning rate of this step, in the dtype asked for.",
        CALLED,
        "optimizer.learning_rate",
    ),
    "loss_scale": _gone(
        "loss_scale",
        "Has it: a tensor, and from the experimental class one that can be called.",
        CALLED,
        "optimizer.dynamic_scale",
    ),
    "dynamic": _gone("dynamic", "Has it: whether the scale moves."),
    "_optimizer": _gone(
        "_optimizer", "Has it: the inner optimizer.", current="inner_optimizer"
    ),
    "lr": _gone("lr", _DELEGATED, current="learning_rate"),
    "decay": _gone("decay", _DELEGATED),
    "beta_1": _gone("beta_1", _DELEGATED, current="inner_optimizer.beta_1"),
    "beta_2": _gone("beta_2", _DELEGATED, current="inner_optimizer.beta_2"),
    "weights": _gone("weights", "Has it.", current="variables"),
    "variables": Method(
        "TypeError: Keras 3's `variables` is a list, and cannot be called.",
        "Its list can be called.",
        KNOWN_CALLED,
        "optimizer.variables",
    ),
    **{
        name: _gone(name, _INNER)
        for name in (
            "minimize",
            "compute_gradients",
            "get_gradients",
            "get_updates",
            "get_weights",
            "set_weights",
            "get_slot",
            "get_slot_names",
            "add_slot",
            "add_weight",
        )
    },
}

# Symbols whose calls return a LossScaleOptimizer.
OPTIMIZERS = (
    "LossScaleOptimizer",
    "experimental.LossScaleOptimizer",
    "LossScaleOptimizerV1",
    "LossScaleOptimizerV3",
    "BaseLossScaleOptimizer",
    "enable_mixed_precision_graph_rewrite",
)
