"""The recorded configs on tf_lso: each is equal, or a difference listed here.

Configs of other versions differ in how they name a class and in keys that came with a
version; `plain` leaves out just these. Those of tf_keras are compared as they are.
"""

import copy
import json
import re

import pytest
import tensorflow as tf

from tests.families import FAMILIES, KERASES, PACKAGES, here
from tests.golden import collecting, harness
from tests.golden.encoding import NAN, attempt, equal
from tests.golden.harness import CLASSES
from tf_lso import keras_configs
from tf_lso.optimizers import config as configs
from tf_lso.patches import table as patches

OLD_LAYOUT = ("2.4.4", "2.8.4")


def _parameters(of_an_optimizer):
    on_families = {"v2": here("legacy", "keras3"), "new": here("new", "keras3")}
    return [
        pytest.param(case, results, family, id=f"{harness.name_of(case)}-{family}")
        for case, results in harness.cases("config_roundtrip", "configs")
        for family in on_families[case.get("family", "v2")]
        if ("api" in case) == of_an_optimizer
    ]


# --- Configs made by hand: "api:config", "deserialize:name:config", "optimizers.get...".

_SGD = {"class_name": "SGD", "config": {"learning_rate": 0.1}}


def _old(class_name, **arguments):
    loss_scale = {"class_name": class_name, "config": arguments}
    return {"optimizer": _SGD, "loss_scale": loss_scale}


_DYNAMIC = {"initial_loss_scale": 16.0, "increment_period": 5}
_STABLE = {"inner_optimizer": _SGD, "initial_scale": 16.0}

CONFIGS = {
    "gen23_dynamic": _old("DynamicLossScale", **_DYNAMIC, multiplier=2.0),
    "gen23_dynamic_mult4": _old("DynamicLossScale", **_DYNAMIC, multiplier=4.0),
    "gen23_fixed": _old("FixedLossScale", loss_scale_value=16.0),
    "gen23_bogus": _old("BogusLossScale"),
    "gen24_dynamic": {**_STABLE, "dynamic": True, "dynamic_growth_steps": 5},
    "gen24_fixed": {**_STABLE, "dynamic": False, "dynamic_growth_steps": None},
    "gen24_minimal": {"inner_optimizer": _SGD},
    "keras3": {
        **_STABLE,
        "name": "loss_scale_optimizer",
        "dynamic_growth_steps": 5,
        "weight_decay": None,
        "clipnorm": None,
        "use_ema": False,
        "ema_momentum": 0.99,
        "loss_scale_factor": None,
    },
}

# What tf_lso does otherwise: pattern of the case -> why, and what it gives. The first
# that matches.

LOADS = "every layout is read by every class and name"
NAMED = "ValueError that names the key, not KeyError of it"


def _loaded(scale):
    return {"ok": {"type": "LossScaleOptimizer", "loss_scale": scale}}


DIFFERENCES = {
    "optimizers.get:.*": (NAMED, {"error": "ValueError"}),
    "(stable|experimental):gen23_bogus": (NAMED, {"error": "ValueError"}),
    "(stable|experimental):gen24_minimal": (LOADS, _loaded(32768.0)),
    "(stable|experimental):(gen2|keras3).*": (LOADS, _loaded(16.0)),
    "deserialize:loss_scale_optimizer:.*": (
        "an unknown name is refused",
        {"error": "ValueError"},
    ),
    "deserialize:.*": (LOADS, _loaded(16.0)),
}


def _told(optimizer):
    loss_scale = optimizer.loss_scale
    loss_scale = loss_scale() if callable(loss_scale) else loss_scale
    return {"type": type(optimizer).__name__, "loss_scale": float(loss_scale)}


def _load(case, family):
    """Load a config made by hand; it must stay as it is."""
    kind, *names = case.split(":")
    if kind == "optimizers.get_identity":
        wrapped = CLASSES["stable"](FAMILIES[family].SGD(0.1))
        return KERASES[family].optimizers.get(wrapped) is wrapped
    if kind == "optimizers.get":
        return type(_get(names[0], family)).__name__
    config, package = copy.deepcopy(CONFIGS[names[-1]]), PACKAGES[family]
    try:
        if kind == "deserialize":
            serialized = {"class_name": names[0], "config": config}
            return _told(configs.deserialize(serialized, package=package))
        optimizer = configs.from_config(CLASSES[kind], config, package=package)
        return {**_told(optimizer), "config": optimizer.get_config()}
    finally:
        assert config == CONFIGS[names[-1]]


def _get(name, family):
    enabled = patches.enable(patches.LOADING, PACKAGES[family])
    try:
        return KERASES[family].optimizers.get(name)
    finally:
        if enabled:
            patches.disable(patches.LOADING, PACKAGES[family])


@collecting.each(
    _parameters(of_an_optimizer=False), by=lambda case, results, family: family
)
def test_made_by_hand(case, results, family):
    name = case["case"]
    actual = attempt(lambda: _load(name, family))
    layout = set(actual.get("ok", {}).pop("config", {})) if _is_dict(actual) else None
    for entry in results:
        expected = entry["result"]
        if _is_dict(expected):
            content = dict(expected["ok"])
            wanted = _layout(content.pop("config", None), name)
            assert layout is None or wanted is None or layout - {"name"} == wanted
            content["type"] = content["type"].removesuffix("V1")
            expected = {"ok": content}
        if not equal(actual, expected):
            reason, expected = next(
                difference
                for pattern, difference in DIFFERENCES.items()
                if re.fullmatch(pattern, name)
            )
            assert equal(actual, expected), f"{entry['versions']}: {reason}"


def _is_dict(result):
    return isinstance(result.get("ok"), dict)


def _layout(config, name):
    if config is not None and name.startswith("experimental:"):
        return {"optimizer", "loss_scale"}  # in 2.4-2.8 that of the stable class
    return None if config is None else set(config)


# --- Configs of an optimizer: its own, and those recorded of one. Functions of (case,
# recorded, family).


def _optimizer(case, family):
    inner = harness.inner_optimizer(family, case["inner"])
    if case["kind"] == "default":
        arguments = ("dynamic",) if case["api"] == "experimental" else ()
        return CLASSES[case["api"]](inner, *arguments)
    scale = 3.0 if case["kind"] == "fixed" else 4.0
    return harness.wrap(case["api"], inner, case["kind"], scale)


def _get_config(case, recorded, family):
    return _optimizer(case, family).get_config()


def _json_serializable(case, recorded, family):
    config = _optimizer(case, family).get_config()
    return json.loads(json.dumps(config)) == config


def _from_config_own(case, recorded, family):
    optimizer = _optimizer(case, family)
    config = optimizer.get_config()
    before = copy.deepcopy(config)
    again = type(optimizer).from_config(config)
    return {
        **_told(again),
        "inner": type(again.inner_optimizer).__name__,
        "config_mutated": config != before,
        "same_config": again.get_config() == before,
    }


def _after_training(case, recorded, family):
    optimizer, variable = _optimizer(case, family), tf.Variable(1.0)
    for gradient in (0.5, 0.5, 0.5, 0.5, NAN):
        harness.apply(optimizer, gradient, variable)
    config = optimizer.get_config()
    again = type(optimizer).from_config(config)
    return {
        "config_after_training": config,
        "loss_scale_before": _told(optimizer)["loss_scale"],
        "loss_scale_of_copy": _told(again)["loss_scale"],
        "counter": harness.counts(again)["counter"],
    }


def _serialize(case, recorded, family):
    """What was recorded of `serialize` is loaded, and gives the config back."""
    before = copy.deepcopy(recorded["ok"])
    optimizer = configs.deserialize(recorded["ok"], package=PACKAGES[family])
    assert recorded["ok"] == before
    return {**recorded["ok"], "config": optimizer.get_config()}


def _deserialize_serialize(case, recorded, family):
    stable = case["api"] == "stable"
    serialized = {
        "class_name": "LossScaleOptimizer"
        if stable
        else "tf_lso>ExperimentalLossScaleOptimizer",
        "config": _optimizer(case, family).get_config(),
    }
    again = configs.deserialize(serialized, package=PACKAGES[family])
    inner = type(again.inner_optimizer).__name__
    return {**_told(again), "inner": inner, "config": again.get_config()}


_CASES = {
    "get_config": _get_config,
    "json_serializable": _json_serializable,
    "from_config_own": _from_config_own,
    "config_after_training": _after_training,
    "serialize": _serialize,
    "deserialize_serialize": _deserialize_serialize,
}


def _plain_inner(serialized, hyperparameters):
    config = serialized["config"]
    return {
        "class_name": serialized["class_name"].split(">")[-1].lower(),
        "config": {k: v for k, v in config.items() if k in hyperparameters},
    }


def plain(config, hyperparameters):
    """The config of a LossScaleOptimizer in the words of 2.4, without what came later."""
    config = {k: v for k, v in config.items() if k != "name"}
    if "loss_scale" in config:
        loss_scale = config.pop("loss_scale")
        arguments = loss_scale["config"]
        config = {
            "inner_optimizer": config["optimizer"],
            "dynamic": loss_scale["class_name"] == "DynamicLossScale",
            "initial_scale": arguments.get("initial_loss_scale")
            or arguments["loss_scale_value"],
            "dynamic_growth_steps": arguments.get("increment_period"),
        }
        assert arguments.get("multiplier", 2.0) == 2.0
    return config | {
        "inner_optimizer": _plain_inner(config["inner_optimizer"], hyperparameters)
    }


def _config_in(value):
    """The recorded config in a result, and its place."""
    if "inner_optimizer" in value or "optimizer" in value:
        return None, value
    for key in ("config", "config_after_training"):
        if key in value:
            return key, value[key]
    return None, None


def _equal(actual, recorded, exact):
    place, wanted = _config_in(recorded)
    _, given = _config_in(actual)
    if wanted is None:
        return equal(actual, recorded)
    inner = wanted.get("inner_optimizer") or wanted["optimizer"]
    # `ema_overwrite_frequency` has other defaults, and is not read without `use_ema`.
    names = set(inner["config"]) - {"name", "ema_overwrite_frequency"}
    assert not inner["config"].get("use_ema")
    ours = (given.get("inner_optimizer") or given["optimizer"])["config"]
    lacking = names - set(ours)
    # What a family lacks said nothing.
    assert all(keras_configs.is_neutral(k, inner["config"][k]) for k in lacking)
    if exact:
        assert given == wanted
    if place is not None:
        rest = [{k: v for k, v in x.items() if k != place} for x in (actual, recorded)]
        if not equal(*rest):
            return False
    return equal(
        plain(given, names - lacking),
        plain(wanted, names - lacking),
        False,  # a learning rate in a variable is a float32
    )


# What tf_lso gives in place of what was recorded.
OTHERWISE = {
    # One class for all; input is never changed.
    "from_config_own": {"type": "LossScaleOptimizer", "config_mutated": False},
    "deserialize_serialize": {"type": "LossScaleOptimizer"},
}


@collecting.each(
    _parameters(of_an_optimizer=True),
    by=lambda case, results, family: f"{case['case']}-{family}",
)
def test_of_an_optimizer(case, results, family):
    name = case["case"]
    for entry in results:
        recorded = entry["result"]
        actual = attempt(lambda r=recorded: _CASES[name](case, r, family))
        assert "ok" in actual, actual
        exact = (
            name in ("get_config", "serialize", "deserialize_serialize")
            and case["api"] == "stable"
            and family != "keras3"
            and harness.REFERENCE in entry["versions"]
            and harness.SAME_KERNELS
        )
        if name == "json_serializable":
            assert actual["ok"] is True  # those of 2.9-2.11 held NumPy numbers
        else:
            expected = recorded["ok"] | OTHERWISE.get(name, {})
            assert _equal(actual["ok"], expected, exact), (actual, recorded)


def test_configs_of_the_experimental_class_have_the_layout_of_2_3():
    # In 2.4-2.8 they had the layout of the stable class.
    for case, results in harness.cases(
        "config_roundtrip", "configs", case="get_config", api="experimental"
    ):
        actual = _get_config(case, None, "legacy")
        for entry in results:
            same = set(actual) == set(entry["result"]["ok"])
            assert same == (not set(OLD_LAYOUT) & set(entry["versions"]))
