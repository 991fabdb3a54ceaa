"""Replay how programs make, set and read dtype policies, and compile under a policy."""

import contextlib
import re

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, KERASES, OLD_KERAS3, PACKAGES
from tests.golden import harness
from tests.golden.comparing import Section, check_all, grouped, where
from tests.golden.encoding import ANYTHING, attempt, equal, without
from tf_lso import policies


def _applies(case, family):
    """Return whether the installed Keras behaves as later versions do.

    Keras 3.0 compares policies by identity and writes only their names. So there, cases that
    show the equality or the config of a policy are not replayed.
    """
    differs_in_keras_3_0 = case["case"] in ("eq", "hash", "layers", "Policy<None>")
    return not (OLD_KERAS3 and family == "keras3" and differs_in_keras_3_0)


class Api(contextlib.AbstractContextManager):
    """The policy classes and functions of one API for one Keras, while tf_lso is installed.

    `name` is "stable" or "experimental". `Policy`, `get` and `set` belong to this API.
    `OtherPolicy` is the policy class of the other API, and `both` has the functions of both.
    """

    def __init__(self, name, family):
        self._installed = tf_lso.install()
        self.family, self.is_stable = family, name == "stable"
        self.keras, self.package = KERASES[family], PACKAGES[family]
        self.both = both = policies.for_package(self.package)
        if self.is_stable:
            self.Policy, self.OtherPolicy = both.Policy, both.ExperimentalPolicy
            self.get, self.set = both.global_policy, both.set_global_policy
        else:
            self.Policy, self.OtherPolicy = both.ExperimentalPolicy, both.Policy
            self.get, self.set = both.experimental_global_policy, both.set_policy

    def __exit__(self, *error):
        """Restore the global policy and `compile`."""
        self.both.set_global_policy(None)
        self._installed.uninstall()


# --- What the record contains about a policy and a layer.


def _attribute(policy, name):
    outcome = attempt(lambda: getattr(policy, name))
    return outcome.get("ok", outcome)


def describe(policy):
    return {
        "compute_dtype": policy.compute_dtype,
        "variable_dtype": policy.variable_dtype,
        "name": policy.name,
        "should_cast_variables": _attribute(policy, "should_cast_variables"),
        "loss_scale": _attribute(policy, "loss_scale"),
        "config": {"ok": policy.get_config()},
        "repr": {"ok": _as_policy(repr(policy))},
        "type": _as_policy(type(policy).__name__),
    }


def _as_policy(text):
    """Return a text with the old name of the class that Keras 3 calls DTypePolicy."""
    return text.replace("DTypePolicy", "Policy")


def _built(api, **arguments):
    layer = api.keras.layers.Dense(1, **arguments)
    return layer, layer(tf.ones((1, 2)))


def layers(api, attribute):
    """Describe a layer that gets its policy from its arguments or from the global policy."""
    if attribute == "dtype=Policy":
        layer, _ = _built(api, dtype=api.Policy("mixed_float16"))
        return [layer.compute_dtype, layer.variable_dtype, None]
    if attribute == "dtype=str":
        return {"ok": _built(api, dtype="mixed_float16")[0].compute_dtype}
    api.set(attribute)
    layer, out = _built(api)
    policy, kernel = layer.dtype_policy, layer.kernel.dtype
    described = {
        "compute_dtype": {"ok": layer.compute_dtype},
        "variable_dtype": {"ok": layer.variable_dtype},
        "dtype_policy": {
            "ok": {"name": policy.name, "type": _as_policy(type(policy).__name__)}
        },
        "kernel": kernel if isinstance(kernel, str) else kernel.name,
        "layer.dtype": layer.dtype,
        "out": out.dtype.name,
    }
    if not api.is_stable:
        described["get_layer_policy"] = describe(api.both.get_layer_policy(layer))
    return described


# --- The case `compile`. Its attribute is "policy" or "policy+optimizer", with keys of these
# tables or the name of a policy.

_POLICIES = {
    "P(float32,8)": ("float32", lambda: 8),
    "P(mixed_float16,8)": ("mixed_float16", lambda: 8),
    "P(mixed_float16,Dyn)": ("mixed_float16", lambda: tf_lso.DynamicLossScale(16.0, 5)),
    "P(mixed_float16,None)": ("mixed_float16", lambda: None),
}

_OPTIMIZERS = {
    "": lambda sgd: sgd(0.1, momentum=0.9),
    "clipnorm": lambda sgd: sgd(0.1, momentum=0.9, clipnorm=1.0),
    "already_lso": lambda sgd: harness.wrap("stable", sgd(0.1, momentum=0.9)),
    "str": lambda sgd: "sgd",
}


def compiled(api, attribute):
    """Compile a model under a policy, train on one batch, and describe its optimizer."""
    policy, _, optimizer = attribute.partition("+")
    if policy in _POLICIES:
        name, loss_scale = _POLICIES[policy]
        policy = api.Policy(name, loss_scale=loss_scale())
    api.set(policy)
    original = _OPTIMIZERS[optimizer](FAMILIES[api.family].SGD)
    # The kernel starts at zero, so that no scaled gradient overflows float16.
    layer = api.keras.layers.Dense(1, kernel_initializer="zeros")
    model = api.keras.Sequential([layer])
    # Test traced models with the stable API, and eager models with the experimental API.
    model.compile(original, "mse", run_eagerly=not api.is_stable)
    used = model.optimizer
    loss_scale, scaling = harness.counts(used)["loss_scale"], None
    if isinstance(used, tf_lso.LossScaleOptimizer):
        scaling = [used.dynamic, used.initial_scale, used.dynamic_growth_steps]
    model.train_on_batch(np.full((2, 2), 0.5), np.full((2, 1), 0.25))
    return {
        "optimizer_type": type(used).__name__,
        "same_object": used is original,
        "inner_is_given": getattr(used, "inner_optimizer", used) is original,
        "loss_scale": loss_scale,
        "scaling": scaling,
        "train": {"ok": True},
        "after": harness.counts(used),
    }


# --- The other cases. Maps a key in the recorded call `Policy(name, loss_scale=<key>)` to a
# function that returns the loss scale.

LOSS_SCALES = {
    "0.5": lambda: 0.5,
    "8": lambda: 8,
    "Dyn": lambda: tf_lso.DynamicLossScale(8.0, 3),
    "Fixed": lambda: tf_lso.FixedLossScale(8.0),
    "None": lambda: None,
}


def loss_scale_argument(key):
    """Return {"loss_scale": value} for a key. An unknown key is itself the loss scale."""
    if not key or key == "default":
        return {}
    return {"loss_scale": LOSS_SCALES[key]() if key in LOSS_SCALES else key}


# Maps a key in the recorded calls `Policy<key>` and `set(key)` to a function of the `Api` that
# returns the argument.
_VALUES = {
    "None": lambda api: None,
    "Policy": lambda api: api.Policy("mixed_bfloat16"),
    "bogus": lambda api: "bogus",
    "infer": lambda api: "infer",
    "int": lambda api: 3,
    "mixed_float16": lambda api: "mixed_float16",
    "np.float16": lambda api: np.float16,
    "policy": lambda api: api.Policy("float32"),
    "policy_other_kind": lambda api: api.OtherPolicy("mixed_float16"),
    "tf.float16": lambda api: tf.float16,
}


def _set(api, value):
    returned, policy = api.set(value), api.get()
    return {"global": describe(policy), "ret": returned, "same_object": policy is value}


def _equals(api):
    policy = api.Policy("float32")
    others = (api.Policy("float32"), api.Policy("float16"), "float32", policy)
    return [policy == other for other in others]


def _from_config(api, **arguments):
    config = api.Policy("mixed_float16", **arguments).get_config()
    return describe(api.Policy.from_config(config))


_OTHER = {
    "eq": _equals,
    "hash": lambda api: hash(api.Policy("float32")) is not None,
    "from_config": _from_config,
    "from_config_ls": lambda api: _from_config(
        api, **loss_scale_argument("default" if api.is_stable else "Dyn")
    ),
    "global_default": lambda api: describe(api.get()),
    "get_layer_policy(non layer)": lambda api: api.both.get_layer_policy("x"),
    "get_layer_policy(tfvar)": lambda api: api.both.get_layer_policy(tf.Variable(1.0)),
}


def replay(generation, family, case):
    name = case["case"]
    with Api(generation, family) as api:
        if name in ("compile", "layers"):
            return {"compile": compiled, "layers": layers}[name](api, case["attribute"])
        if name in _OTHER:
            return _OTHER[name](api)
        if name.startswith("set("):
            key = name.removeprefix("set(").removesuffix(")")
            return _set(api, _VALUES[key](api))
        if name.startswith("Policy<"):
            key = name.removeprefix("Policy<").removesuffix(">")
            return describe(api.Policy(_VALUES[key](api)))
        pattern = r"Policy\('(\w*)'(?:,loss_scale=(.+))?\)"
        policy_name, loss_scale = re.fullmatch(pattern, name).groups()
        return describe(api.Policy(policy_name, **loss_scale_argument(loss_scale)))


# --- What tf_lso gives where it differs.

_ENCODED_SCALE = {
    "py": "DynamicLossScale",
    "repr": "DynamicLossScale(current_loss_scale=32768.0, num_good_steps=0, "
    "initial_loss_scale=32768.0, increment_period=2000, multiplier=2.0)",
}


def same(actual, expected, case, family):
    # The last test of this file is about `should_cast_variables`. How Keras writes a policy
    # into the config of a layer depends on its version.
    names = ("should_cast_variables", "get_config.dtype")
    return equal(without(actual, *names), without(expected, *names))


SECTION = Section(
    "training",
    "policies",
    replay,
    same,
    applies=_applies,
    differs=[
        # The policies `infer` and `_infer`.
        where(case="Policy('_infer')", on="keras3", raises="ValueError"),
        where(
            case="set(infer)",
            api="experimental",
            like={"version": "2.3.4", "case": "set(None)"},
        ),
        # `should_cast_variables`, `"auto"` and `"USE_DEFAULT"`.
        where(
            case=[
                f"Policy('{name}',loss_scale=USE_DEFAULT)"
                for name in ("float32", "mixed_bfloat16", "mixed_float16")
            ],
            api="experimental",
            like="2.3.4",
        ),
        # The config of a layer, which is not compared.
        where(attribute="dtype=Policy", changes={"2": ANYTHING}),
        # Stable policies on Keras 3.
        where(case="eq", on="keras3", gives=[True, False, False, True]),
        where(case="hash", on="keras3", api="stable", raises="TypeError"),
        where(
            case="Policy<None>",
            on="keras3",
            api="stable",
            like={"version": "2.15.1", "case": "Policy('float32')"},
        ),
        # `global_policy` and `get_layer_policy` of the experimental API.
        where(
            attribute=["float16", "float32"],
            case="layers",
            api="experimental",
            changes={
                "get_layer_policy > loss_scale": None,
                "get_layer_policy > repr > ok": ANYTHING,
            },
        ),
        where(
            attribute="mixed_float16",
            case="layers",
            api="experimental",
            changes={
                "get_layer_policy > loss_scale": _ENCODED_SCALE,
                "get_layer_policy > repr > ok": ANYTHING,
            },
        ),
        where(
            case=["global_default", "set(None)", "set(mixed_float16)"],
            api="experimental",
            like="2.3.4",
        ),
        where(
            case="set(policy_other_kind)",
            api="experimental",
            changes={
                "global > loss_scale": _ENCODED_SCALE,
                "global > repr > ok": ANYTHING,
                "same_object": False,
            },
        ),
    ],
)


@pytest.mark.slow  # tests/policies are quick
@pytest.mark.parametrize("replays", grouped(SECTION))
def test_equals_every_version(replays):
    check_all(replays)


@pytest.mark.parametrize("name", ["float16", "mixed_bfloat16", "mixed_float16"])
def test_mixed_policies_cast_variables(name):
    """Only the experimental policies of TensorFlow 2.1-2.3 said so. All of tf_lso do."""
    policy = policies.ExperimentalPolicy(name)
    assert policy.should_cast_variables == name.startswith("mixed")
    assert (policy.loss_scale is not None) == (name == "mixed_float16")
