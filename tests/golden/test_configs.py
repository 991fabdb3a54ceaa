"""Replay `get_config` of optimizers, and the loading of configs that were written by hand.

The configs of other versions have other keys and spell class names differently. The function
`normalized_config` removes these differences. Configs that tf_keras also gives are compared
without changes.
"""

import copy
import functools
import json

import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, KERASES, PACKAGES, here
from tests.generation import limit
from tests.golden import comparing, harness
from tests.golden.comparing import Section, check_all, grouped, where
from tests.golden.encoding import NAN, TOLERANCE, equal
from tests.golden.harness import CLASSES
from tf_lso.frameworks import keras_configs
from tf_lso.optimizers import config as configs

# Configs written by hand have no family in the record.
_FAMILIES = {**comparing.REPLAY_FAMILIES, None: here("legacy", "keras3")}

# --- Configs written by hand. The names of these cases are "api:config",
# "deserialize:class name:config" or "optimizers.get...". `config` is a key of `CONFIGS`.

_SGD = {"class_name": "SGD", "config": {"learning_rate": 0.1}}


def _config_of_2_3(class_name, **arguments):
    loss_scale = {"class_name": class_name, "config": arguments}
    return {"optimizer": _SGD, "loss_scale": loss_scale}


_DYNAMIC = {"initial_loss_scale": 16.0, "increment_period": 5}
_STABLE = {"inner_optimizer": _SGD, "initial_scale": 16.0}

CONFIGS = {
    "gen23_dynamic": _config_of_2_3("DynamicLossScale", **_DYNAMIC, multiplier=2.0),
    "gen23_dynamic_mult4": _config_of_2_3(
        "DynamicLossScale", **_DYNAMIC, multiplier=4.0
    ),
    "gen23_fixed": _config_of_2_3("FixedLossScale", loss_scale_value=16.0),
    "gen23_bogus": _config_of_2_3("BogusLossScale"),
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


def _summary(optimizer):
    loss_scale = optimizer.loss_scale
    loss_scale = loss_scale() if callable(loss_scale) else loss_scale
    return {"type": type(optimizer).__name__, "loss_scale": float(loss_scale)}


def _load(case, family):
    """Load a config that was written by hand, and check that loading does not change it."""
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
            return _summary(configs.deserialize(serialized, package=package))
        optimizer = configs.from_config(CLASSES[kind], config, package=package)
        return {**_summary(optimizer), "config": optimizer.get_config()}
    finally:
        assert config == CONFIGS[names[-1]]


def _get(name, family):
    with tf_lso.install():
        return KERASES[family].optimizers.get(name)


# --- Cases about the config of an optimizer: functions of (case, family).


def _optimizer(case, family):
    inner = harness.inner_optimizer(family, case["inner"])
    if case["kind"] == "default":
        arguments = ("dynamic",) if case["api"] == "experimental" else ()
        return CLASSES[case["api"]](inner, *arguments)
    scale = 3.0 if case["kind"] == "fixed" else 4.0
    return harness.wrap(case["api"], inner, case["kind"], scale)


def _get_config(case, family):
    return _optimizer(case, family).get_config()


def _json_serializable(case, family):
    config = _get_config(case, family)
    return json.loads(json.dumps(config)) == config


def _from_own_config(case, family):
    optimizer = _optimizer(case, family)
    config = optimizer.get_config()
    before = copy.deepcopy(config)
    again = type(optimizer).from_config(config)
    return {
        **_summary(again),
        "inner": type(again.inner_optimizer).__name__,
        "config_mutated": config != before,
        "same_config": again.get_config() == before,
    }


def _after_training(case, family):
    optimizer, variable = _optimizer(case, family), tf.Variable(1.0)
    for gradient in (0.5, 0.5, 0.5, 0.5, NAN):
        harness.apply(optimizer, gradient, variable)
    config = optimizer.get_config()
    again = type(optimizer).from_config(config)
    return {
        "config_after_training": config,
        "loss_scale_before": _summary(optimizer)["loss_scale"],
        "loss_scale_of_copy": _summary(again)["loss_scale"],
        "counter": harness.counts(again)["counter"],
    }


def _deserialize_serialize(case, family):
    name = "LossScaleOptimizer"
    if case["api"] == "experimental":
        name = "tf_lso>ExperimentalLossScaleOptimizer"
    serialized = {"class_name": name, "config": _get_config(case, family)}
    again = configs.deserialize(serialized, package=PACKAGES[family])
    inner = type(again.inner_optimizer).__name__
    return {**_summary(again), "inner": inner, "config": again.get_config()}


_CASES = {
    "get_config": _get_config,
    "json_serializable": _json_serializable,
    "from_config_own": _from_own_config,
    "config_after_training": _after_training,
    "serialize": lambda case, family: {},  # `same` loads the recorded configs
    "deserialize_serialize": _deserialize_serialize,
}


def replay(api, family, case):
    return _CASES[case["case"]](case, family) if api else _load(case["case"], family)


# --- The comparison.


def normalized_config(config, hyperparameters):
    """Return the config of a LossScaleOptimizer with the keys of TensorFlow 2.4.

    The config of the inner optimizer has only the keys in `hyperparameters`.
    """
    config = {key: value for key, value in config.items() if key != "name"}
    if "loss_scale" in config:
        loss_scale = config.pop("loss_scale")
        arguments = loss_scale["config"]
        is_dynamic = loss_scale["class_name"] == "DynamicLossScale"
        scale_name = "initial_loss_scale" if is_dynamic else "loss_scale_value"
        config = {
            "inner_optimizer": config["optimizer"],
            "dynamic": is_dynamic,
            "initial_scale": arguments[scale_name],
            "dynamic_growth_steps": arguments.get("increment_period"),
        }
        assert arguments.get("multiplier", 2.0) == 2.0
    inner = config["inner_optimizer"]
    config["inner_optimizer"] = {
        "class_name": inner["class_name"].split(">")[-1].lower(),
        "config": {
            name: value
            for name, value in inner["config"].items()
            if name in hyperparameters
        },
    }
    return config


def same(actual, expected, case, family):
    """Return whether a result is as expected, apart from the layout of configs."""
    if "error" in actual or "error" in expected or case["case"] == "json_serializable":
        return equal(actual, expected)
    actual, recorded = actual["ok"], expected["ok"]
    if "api" not in case:  # a config that was written by hand
        return _same_by_hand(actual, recorded, case["case"])
    if case["case"] == "get_config":
        for cls in (CLASSES["stable"], CLASSES["experimental"]):
            _assert_loads(
                recorded, case, family, functools.partial(configs.from_config, cls)
            )
    if case["case"] == "serialize":
        _assert_loads(recorded, case, family, configs.deserialize)
        return True
    config, rest = _split_config(actual, case)
    recorded_config, recorded_rest = _split_config(recorded, case)
    if not equal(rest, recorded_rest):
        return False
    if recorded_config is None:
        return True
    is_exact = _is_exact(recorded_config, case, family)
    return _same_config(config, recorded_config, is_exact)


def _assert_loads(recorded, case, family, load):
    """Assert that a recorded config becomes an optimizer with the same config.

    The recorded config must not change. An AssertionError fails the test, while a result that
    is not the same would only be that of another version.
    """
    before = copy.deepcopy(recorded)
    try:
        optimizer = load(recorded, package=PACKAGES[family])
    except Exception as error:
        raise AssertionError(f"{recorded} does not load: {error}") from error
    assert recorded == before
    layout = recorded["config"] if case["case"] == "serialize" else recorded
    config = optimizer.get_config()
    is_exact = case["case"] == "serialize" and _is_exact(layout, case, family)
    assert _same_config(config, layout, is_exact), f"{layout}, loaded {config}"


def _same_by_hand(actual, recorded, name):
    """Return whether a loaded optimizer is as recorded and its config has the same keys."""
    if not (isinstance(actual, dict) and isinstance(recorded, dict)):
        return equal(actual, recorded)
    actual, recorded = dict(actual), dict(recorded)
    keys = set(actual.pop("config", ())) - {"name"}
    recorded_keys = set(recorded.pop("config", ())) - {"name"}
    if recorded_keys and name.startswith("experimental:"):
        # TensorFlow 2.4-2.8 gave the config of the stable class. tf_lso gives these keys.
        recorded_keys = {"optimizer", "loss_scale"}
    has_same_keys = not recorded_keys or keys == recorded_keys
    return has_same_keys and equal(actual, recorded)


def _split_config(result, case):
    """Split a result into the config that it contains, or None, and the rest."""
    if case["case"] == "get_config":
        return result, {}
    rest = dict(result)
    return rest.pop("config", rest.pop("config_after_training", None)), rest


def _is_exact(recorded_config, case, family):
    """Return whether a config must match exactly, because tf_keras also gave this config."""
    names = ("get_config", "serialize", "deserialize_serialize")
    if case["case"] not in names or case["api"] != "stable" or family == "keras3":
        return False
    ((_, results),) = harness.cases("config_roundtrip", "configs", **case)
    of_tf_keras = harness.result_of(results, harness.REFERENCE)
    if of_tf_keras is None or not harness.SAME_KERNELS:
        return False
    return _split_config(of_tf_keras["ok"], case)[0] == recorded_config


def _inner_config(config):
    return (config.get("inner_optimizer") or config["optimizer"])["config"]


def _same_config(config, recorded, is_exact):
    inner, recorded_inner = _inner_config(config), _inner_config(recorded)
    # The default of `ema_overwrite_frequency` varies, but has no effect without `use_ema`.
    names = recorded_inner.keys() - {"name", "ema_overwrite_frequency"}
    assert not recorded_inner.get("use_ema")
    # An argument that the family lacks must have a value without effect.
    lacking = names - inner.keys()
    assert all(keras_configs.is_neutral(name, recorded_inner[name]) for name in lacking)
    if is_exact and config != recorded:
        return False
    # A variable stores the learning rate as float32, so compare with a tolerance.
    return equal(
        normalized_config(config, names - lacking),
        normalized_config(recorded, names - lacking),
        TOLERANCE,
    )


def _group(case):
    return (case["case"],) if "api" in case else ()


SECTIONS = [
    Section(
        "configs",
        "config_roundtrip",
        replay,
        same,
        families=_FAMILIES,
        group=_group,
        differs={
            "Configs that are read": [
                where(
                    case=[
                        "deserialize:LossScaleOptimizerV3:gen23_dynamic",
                        "deserialize:LossScaleOptimizerV3:gen24_dynamic",
                        "deserialize:LossScaleOptimizerV3:gen24_fixed",
                        "experimental:keras3",
                        "stable:gen23_dynamic_mult4",
                        "stable:keras3",
                    ],
                    gives={"type": "LossScaleOptimizer", "loss_scale": 16.0},
                ),
                where(case="experimental:gen23_dynamic_mult4", like="2.3.4"),
                where(
                    case=["experimental:gen24_dynamic", "experimental:gen24_fixed"],
                    changes={"type": "LossScaleOptimizer"},
                ),
                where(
                    case="experimental:gen24_minimal",
                    gives={"type": "LossScaleOptimizer", "loss_scale": 32768.0},
                ),
                where(
                    case="from_config_own",
                    api="experimental",
                    changes={"type": "LossScaleOptimizer", "config_mutated": False},
                ),
                where(
                    case="from_config_own",
                    family="new",
                    changes={"type": "LossScaleOptimizer", "config_mutated": False},
                ),
                where(
                    case="stable:gen23_bogus",
                    raises="ValueError: Unknown loss scale: 'BogusLossScale'",
                ),
                where(
                    case=[
                        "stable:gen23_dynamic",
                        "stable:gen23_fixed",
                        "stable:gen24_dynamic",
                        "stable:gen24_fixed",
                        "stable:gen24_minimal",
                    ],
                    like="2.8.4",
                ),
                where(
                    case="from_config_own",
                    api="stable",
                    family="v2",
                    changes={"config_mutated": False},
                ),
            ],
            "Calls that failed with an unclear error": [
                where(
                    case=[
                        "deserialize:loss_scale_optimizer:gen23_dynamic",
                        "deserialize:loss_scale_optimizer:gen24_dynamic",
                        "deserialize:loss_scale_optimizer:gen24_fixed",
                    ],
                    raises="ValueError: Unknown optimizer 'loss_scale_optimizer'",
                ),
                where(
                    case=[
                        "optimizers.get:LossScaleOptimizer",
                        "optimizers.get:lossscaleoptimizer",
                    ],
                    raises="ValueError: must have either 'inner_optimizer'",
                ),
            ],
            "The names and bases of the classes": [
                where(
                    case=["experimental:gen23_dynamic", "experimental:gen23_fixed"],
                    like="2.3.4",
                ),
                where(
                    case="deserialize_serialize",
                    family="new",
                    changes={"type": "LossScaleOptimizer"},
                ),
            ],
        },
    )
]

# Maps the id of a group of replays to marks.
MARKS = {
    "configs-config_roundtrip-json_serializable-new": [
        limit(
            "this Keras writes NumPy numbers into configs of newer optimizers", "2.12"
        )
    ],
}


@pytest.mark.parametrize("replays", grouped(SECTIONS, MARKS))
def test_equals_every_version(replays):
    check_all(replays)


def test_configs_of_the_experimental_class_have_the_layout_of_2_3():
    # In TensorFlow 2.4-2.8, these configs had the layout of the stable class.
    names = {"case": "get_config", "api": "experimental"}
    for case, results in harness.cases("config_roundtrip", "configs", **names):
        layout = set(replay("experimental", "legacy", case))
        for entry in results:
            is_old = not {"2.4.4", "2.8.4"} & set(entry["versions"])
            assert (layout == set(entry["result"]["ok"])) == is_old
