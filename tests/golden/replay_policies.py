"""Replays what programs do with dtype policies: make, set, read, compile under them."""

import re

import numpy as np
import tensorflow as tf

import tf_lso
from tests import families
from tests.families import KERASES, OLD_KERAS3, PACKAGES
from tests.golden import encoding, replays
from tf_lso import policies
from tf_lso.patches import table as patches

# In the record's call `Policy(name, loss_scale=<key>)`.
_LOSS_SCALES = {
    "0.5": lambda: 0.5,
    "8": lambda: 8,
    "Dyn": lambda: tf_lso.DynamicLossScale(8.0, 3),
    "Fixed": lambda: tf_lso.FixedLossScale(8.0),
    "None": lambda: None,
}


def applies(case, family):
    """Whether this Keras 3 does what the table of differences says of Keras 3.

    Keras 3.0 compares policies by identity, and writes only their names.
    """
    of_keras3 = case["case"] in ("eq", "hash", "layers", "Policy<None>")
    return not OLD_KERAS3 or family != "keras3" or not of_keras3


_NO_NAMES = {
    "None": lambda policy: None,
    "int": lambda policy: 3,
    "np.float16": lambda policy: np.float16,
    "policy": lambda policy: policy("float32"),
    "tf.float16": lambda policy: tf.float16,
}


class Api:
    """The functions of one generation, for one Keras."""

    def __init__(self, name, family):
        self.family = family
        self.keras, self.package = KERASES[family], PACKAGES[family]
        self.all = policies.for_package(self.package)
        stable = (
            self.all.Policy,
            self.all.global_policy,
            self.all.set_global_policy,
            self.all.ExperimentalPolicy,
        )
        older = (
            self.all.ExperimentalPolicy,
            self.all.experimental_global_policy,
            self.all.set_policy,
            self.all.Policy,
        )
        self.Policy, self.get, self.set, self.Other = (
            stable if name == "stable" else older
        )
        self.get_layer_policy = self.all.get_layer_policy

    def reset(self):
        """The policy and `compile` are as at first."""
        self.all.set_global_policy(None)
        patches.disable(patches.COMPILING, self.package)


# --- What is recorded of a policy and a layer.


def _attribute(of, name):
    try:
        return getattr(of, name)
    except AttributeError as error:
        return {"error": "AttributeError", "message": str(error)}


def _loss_scale(policy):
    value = _attribute(policy, "loss_scale")
    if isinstance(value, tf_lso.LossScale):
        return {"py": type(value).__name__, "repr": repr(value)}
    return value


def describe(policy):
    """What programs see of a policy."""
    return {
        "compute_dtype": policy.compute_dtype,
        "variable_dtype": policy.variable_dtype,
        "name": policy.name,
        "should_cast_variables": _attribute(policy, "should_cast_variables"),
        "loss_scale": _loss_scale(policy),
        "config": {"ok": policy.get_config()},
        "repr": {"ok": repr(policy)},
        "type": type(policy).__name__,
    }


def _is_policy(value, api):
    return isinstance(value, api.all.Policy)


def _dtype_of(layer, api):
    """The dtype in a layer's config, as it was written to files."""
    dtype = layer.get_config()["dtype"]
    return (
        api.keras.saving.serialize_keras_object(dtype)
        if _is_policy(dtype, api)
        else dtype
    )


def _built(api, **arguments):
    layer = api.keras.layers.Dense(1, **arguments)
    return layer, layer(tf.ones((1, 2)))


def _layer(api, name):
    api.set(name)
    layer, out = _built(api)
    policy = layer.dtype_policy
    of_layer = {"get_layer_policy": describe(api.get_layer_policy(layer))}
    return {
        **(of_layer if api.Policy is api.all.ExperimentalPolicy else {}),
        "compute_dtype": {"ok": layer.compute_dtype},
        "variable_dtype": {"ok": layer.variable_dtype},
        "dtype_policy": {"ok": {"name": policy.name, "type": type(policy).__name__}},
        "get_config.dtype": _dtype_of(layer, api),
        "kernel": layer.kernel.dtype
        if isinstance(layer.kernel.dtype, str)
        else layer.kernel.dtype.name,
        "layer.dtype": layer.dtype,
        "out": out.dtype.name,
    }


def layers(api, attribute):
    """A layer under a global policy, or with a policy of its own."""
    if attribute == "dtype=Policy":
        layer, _ = _built(api, dtype=api.Policy("mixed_float16"))
        return [layer.compute_dtype, layer.variable_dtype, _dtype_of(layer, api)]
    if attribute == "dtype=str":
        layer, _ = _built(api, dtype="mixed_float16")
        return {"ok": layer.compute_dtype}
    return _layer(api, attribute)


# --- compile

_POLICIES = {
    "P(float32,8)": ("float32", lambda: 8),
    "P(mixed_float16,8)": ("mixed_float16", lambda: 8),
    "P(mixed_float16,Dyn)": ("mixed_float16", lambda: tf_lso.DynamicLossScale(16.0, 5)),
    "P(mixed_float16,None)": ("mixed_float16", lambda: None),
}


def _wrapped(inner):
    return tf_lso.LossScaleOptimizer(inner, initial_scale=4.0, dynamic_growth_steps=2)


_OPTIMIZERS = {
    "": lambda sgd: sgd(0.1, momentum=0.9),
    "clipnorm": lambda sgd: sgd(0.1, momentum=0.9, clipnorm=1.0),
    "already_lso": lambda sgd: _wrapped(sgd(0.1, momentum=0.9)),
    "str": lambda sgd: "sgd",
}


def _scaling(optimizer):
    if not isinstance(optimizer, tf_lso.LossScaleOptimizer):
        return None
    scale = optimizer.initial_scale
    return [optimizer.dynamic, scale, optimizer.dynamic_growth_steps]


def _state(optimizer):
    state = {"iterations": int(families.numpy(optimizer.iterations)), "counter": None}
    state["loss_scale"] = None
    if isinstance(optimizer, tf_lso.LossScaleOptimizer):
        state["loss_scale"] = float(optimizer.loss_scale)
        if optimizer.dynamic:
            state["counter"] = int(families.numpy(optimizer.dynamic_counter))
    return state


def compiled(api, attribute):
    """What `compile` makes of an optimizer under a policy, and one batch."""
    policy, _, optimizer = attribute.partition("+")
    if policy in _POLICIES:
        name, loss_scale = _POLICIES[policy]
        policy = api.Policy(name, loss_scale=loss_scale())
    api.set(policy)
    given = _OPTIMIZERS[optimizer](families.FAMILIES[api.family].SGD)
    # From zero, so that no scaled gradient overflows float16.
    layer = api.keras.layers.Dense(1, kernel_initializer="zeros")
    model = api.keras.Sequential([layer])
    # Traced in one generation, and eagerly in the other.
    model.compile(given, "mse", run_eagerly=api.Policy is not api.all.Policy)
    used = model.optimizer
    before = _state(used)["loss_scale"]
    model.train_on_batch(np.full((2, 2), 0.5), np.full((2, 1), 0.25))
    return {
        "optimizer_type": type(used).__name__,
        "same_object": used is given,
        "inner_is_given": getattr(used, "inner_optimizer", used) is given,
        "loss_scale": before,
        "scaling": _scaling(used),
        "train": {"ok": True},
        "after": _state(used),
    }


# --- The other calls.


def _policy(api, case):
    if case.startswith("Policy<"):
        return describe(api.Policy(_NO_NAMES[case[7:-1]](api.Policy)))
    name, loss_scale = re.fullmatch(
        r"Policy\('(\w*)'(?:,loss_scale=(.+))?\)", case
    ).groups()
    arguments = {}
    if loss_scale:
        value = _LOSS_SCALES.get(loss_scale, lambda: loss_scale)
        arguments["loss_scale"] = value()
    return describe(api.Policy(name, **arguments))


_SET = {
    "None": lambda api: None,
    "Policy": lambda api: api.Policy("mixed_bfloat16"),
    "bogus": lambda api: "bogus",
    "infer": lambda api: "infer",
    "int": lambda api: 3,
    "mixed_float16": lambda api: "mixed_float16",
    "policy_other_kind": lambda api: api.Other("mixed_float16"),
    "tf.float16": lambda api: tf.float16,
}


def _set(api, case):
    given = _SET[case.removeprefix("set(")[:-1]](api)
    returned = api.set(given)
    policy = api.get()
    return {"global": describe(policy), "ret": returned, "same_object": policy is given}


def _equals(api):
    policy = api.Policy("float32")
    others = (api.Policy("float32"), api.Policy("float16"), "float32", policy)
    return [policy == other for other in others]


def _from_config(api, **arguments):
    config = api.Policy("mixed_float16", **arguments).get_config()
    return describe(api.Policy.from_config(config))


def _with_loss_scale(api):
    stable = api.Policy is api.all.Policy
    scale = {} if stable else {"loss_scale": tf_lso.DynamicLossScale(8.0, 3)}
    return _from_config(api, **scale)


_OTHER = {
    "eq": _equals,
    "hash": lambda api: hash(api.Policy("float32")) is not None,
    "from_config": _from_config,
    "from_config_ls": _with_loss_scale,
    "global_default": lambda api: describe(api.get()),
    "get_layer_policy(non layer)": lambda api: api.get_layer_policy("x"),
    "get_layer_policy(tfvar)": lambda api: api.get_layer_policy(tf.Variable(1.0)),
}


def replay(family, case):
    """What the record holds for a case of `policies`."""
    api, name = Api(case["api"], family), case["case"]

    def run():
        if name == "compile":
            return compiled(api, case["attribute"])
        if name == "layers":
            return layers(api, case["attribute"])
        if name.startswith("Policy"):
            return _policy(api, name)
        return _set(api, name) if name.startswith("set(") else _OTHER[name](api)

    try:
        return encoding.plain(replays.attempt(run))
    finally:
        api.reset()
