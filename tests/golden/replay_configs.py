"""Replays the recorded configs: made by hand, and those of trained optimizers."""

import copy
import json

import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, KERASES, PACKAGES
from tests.golden import harness, replays
from tf_lso.keras.mixed_precision import experimental
from tf_lso.optimizers import config as configs
from tf_lso.patches import table as patches

STABLE = tf_lso.LossScaleOptimizer
EXPERIMENTAL = experimental.LossScaleOptimizer

# --- Configs made by hand: "api:config", "deserialize:name:config", "optimizers.get...".

_SGD = {"class_name": "SGD", "config": {"learning_rate": 0.1}}


def _old(class_name, **arguments):
    loss_scale = {"class_name": class_name, "config": arguments}
    return {"optimizer": _SGD, "loss_scale": loss_scale}


_DYNAMIC = {"initial_loss_scale": 16.0, "increment_period": 5}
_STABLE = {"inner_optimizer": _SGD, "initial_scale": 16.0}

HANDMADE = {
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


def handmade(case, family):
    """Load a config made by hand; it must stay as it is."""
    kind, *names = case.split(":")
    if kind == "optimizers.get_identity":
        optimizer = FAMILIES[family].SGD(0.1)
        wrapped = STABLE(optimizer)
        get = KERASES[family].optimizers.get
        return {"ok": get(wrapped) is wrapped}
    if kind == "optimizers.get":
        return replays.attempt(lambda: type(_get(names[0], family)).__name__)
    config = copy.deepcopy(HANDMADE[names[-1]])
    before = copy.deepcopy(config)

    def run():
        if kind == "deserialize":
            serialized = {"class_name": names[0], "config": config}
            return _told(configs.deserialize(serialized, package=PACKAGES[family]))
        cls = {"stable": STABLE, "experimental": EXPERIMENTAL}[kind]
        optimizer = configs.from_config(cls, config, package=PACKAGES[family])
        return {**_told(optimizer), "config": optimizer.get_config()}

    result = replays.attempt(run)
    assert config == before
    return result


def _get(name, family):
    module, package = KERASES[family], PACKAGES[family]
    enabled = patches.enable(patches.LOADING, package)
    try:
        return module.optimizers.get(name)
    finally:
        if enabled:
            patches.disable(patches.LOADING, package)


def _told(optimizer):
    loss_scale = optimizer.loss_scale
    loss_scale = loss_scale() if callable(loss_scale) else loss_scale
    return {"type": type(optimizer).__name__, "loss_scale": float(loss_scale)}


# --- The configs of an optimizer: its own, and those recorded of one.


def roundtrip(case, recorded, family):
    """Do with an optimizer of a family what the case says."""
    return replays.attempt(lambda: _CASES[case["case"]](case, recorded, family))


def _optimizer(case, family):
    inner = harness.inner_optimizer(family, case["inner"])
    if case["api"] == "experimental":
        loss_scale = {
            "fixed": 3.0,
            "dynamic": tf_lso.DynamicLossScale(4.0, 2),
            "default": "dynamic",
        }[case["kind"]]
        return EXPERIMENTAL(inner, loss_scale)
    arguments = {
        "fixed": {"dynamic": False, "initial_scale": 3.0},
        "dynamic": {"initial_scale": 4.0, "dynamic_growth_steps": 2},
        "default": {},
    }[case["kind"]]
    return STABLE(inner, **arguments)


def _get_config(case, recorded, family):
    del recorded
    return _optimizer(case, family).get_config()


def _json_serializable(case, recorded, family):
    del recorded
    config = _optimizer(case, family).get_config()
    return json.loads(json.dumps(config)) == config


def _from_config_own(case, recorded, family):
    del recorded
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
    del recorded
    optimizer = _optimizer(case, family)
    variable = tf.Variable(1.0)
    for gradient in (0.5, 0.5, 0.5, 0.5, replays.NAN):
        optimizer.apply_gradients([(tf.constant(gradient), variable)])
    config = optimizer.get_config()
    again = type(optimizer).from_config(config)
    counter = again.dynamic_counter
    return {
        "config_after_training": config,
        "loss_scale_before": _told(optimizer)["loss_scale"],
        "loss_scale_of_copy": _told(again)["loss_scale"],
        "counter": None if counter is None else int(counter.numpy()),
    }


def _serialize(case, recorded, family):
    """What was recorded of `serialize` is loaded, and gives the config back."""
    before = copy.deepcopy(recorded["ok"])
    optimizer = configs.deserialize(recorded["ok"], package=PACKAGES[family])
    assert recorded["ok"] == before
    return {**recorded["ok"], "config": optimizer.get_config()}


def _deserialize_serialize(case, recorded, family):
    config = _optimizer(case, family).get_config()
    name = "LossScaleOptimizer"
    if case["api"] == "experimental":
        name = "tf_lso>ExperimentalLossScaleOptimizer"
    again = configs.deserialize(
        {"class_name": name, "config": config}, package=PACKAGES[family]
    )
    return {
        **_told(again),
        "inner": type(again.inner_optimizer).__name__,
        "config": again.get_config(),
    }


_CASES = {
    "get_config": _get_config,
    "json_serializable": _json_serializable,
    "from_config_own": _from_config_own,
    "config_after_training": _after_training,
    "serialize": _serialize,
    "deserialize_serialize": _deserialize_serialize,
}
