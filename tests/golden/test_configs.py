"""Load the configs that old versions wrote, and configs that were written by hand.

The configs of other versions have other keys and spell class names differently. The function
`normalized_config` removes these differences.
"""

import copy

import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, KERASES, PACKAGES, here
from tests.golden import harness
from tests.golden.comparing import Section, check_all, grouped, where
from tests.golden.encoding import NAN, TOLERANCE, equal
from tests.golden.harness import CLASSES
from tf_lso.frameworks import keras_configs
from tf_lso.optimizers import config as configs

# Maps a family of the record to the families that load its configs.
_FAMILIES = {
    "v2": here("legacy", "keras3"),
    "new": here("new", "keras3"),
    None: here("legacy", "keras3"),  # configs that were written by hand
}

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


def same_by_hand(actual, expected, case, family):
    """Return whether a loaded optimizer is as recorded and its config has the same keys."""
    if not isinstance(actual.get("ok"), dict) or "ok" not in expected:
        return equal(actual, expected)
    actual, expected = dict(actual["ok"]), dict(expected["ok"])
    keys = set(actual.pop("config", ())) - {"name"}
    recorded_keys = set(expected.pop("config", ())) - {"name"}
    if recorded_keys and case["case"].startswith("experimental:"):
        # TensorFlow 2.4-2.8 gave the config of the stable class. tf_lso gives these keys.
        recorded_keys = {"optimizer", "loss_scale"}
    return (not recorded_keys or keys == recorded_keys) and equal(actual, expected)


SECTION = Section(
    "configs",
    "config_roundtrip",
    lambda api, family, case: _load(case["case"], family),
    same_by_hand,
    families=_FAMILIES,
    applies=lambda case, family: "api" not in case,
    differs=[
        # Configs that are read.
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
            case="experimental:gen24_minimal",
            gives={"type": "LossScaleOptimizer", "loss_scale": 32768.0},
        ),
        where(case="stable:gen23_bogus", raises="ValueError"),
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
        # Calls that failed with an unclear error.
        where(
            case=[
                "deserialize:loss_scale_optimizer:gen23_dynamic",
                "deserialize:loss_scale_optimizer:gen24_dynamic",
                "deserialize:loss_scale_optimizer:gen24_fixed",
                "optimizers.get:LossScaleOptimizer",
                "optimizers.get:lossscaleoptimizer",
            ],
            raises="ValueError",
        ),
    ],
)


@pytest.mark.parametrize("replays", grouped(SECTION))
def test_equals_every_version(replays):
    check_all(replays)


# --- Configs that old versions wrote.


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


def assert_same_config(config, recorded):
    """Assert that two configs have the same hyperparameters and the same loss scale."""
    inner, recorded_inner = _inner_config(config), _inner_config(recorded)
    # The default of `ema_overwrite_frequency` varies, but has no effect without `use_ema`.
    names = recorded_inner.keys() - {"name", "ema_overwrite_frequency"}
    # An argument that the family lacks must have a value without effect.
    lacking = names - inner.keys()
    assert all(keras_configs.is_neutral(name, recorded_inner[name]) for name in lacking)
    names -= lacking
    # A variable stores the learning rate as float32, so compare with a tolerance.
    config = normalized_config(config, names)
    assert equal(config, normalized_config(recorded, names), TOLERANCE), recorded


def _inner_config(config):
    return (config.get("inner_optimizer") or config["optimizer"])["config"]


def recorded_cases(name, family):
    """Yield (case, list of the results of all versions) for the cases of a family."""
    for case, results in harness.cases("config_roundtrip", "configs", case=name):
        if family in _FAMILIES[case["family"]]:
            yield case, [entry["result"]["ok"] for entry in results]


def optimizer_of(case, family):
    inner = harness.inner_optimizer(family, case["inner"])
    if case["kind"] == "default":
        arguments = ("dynamic",) if case["api"] == "experimental" else ()
        return CLASSES[case["api"]](inner, *arguments)
    scale = 3.0 if case["kind"] == "fixed" else 4.0
    return harness.wrap(case["api"], inner, case["kind"], scale)


def test_recorded_configs_load_and_are_those_of_tf_lso(family):
    for case, recorded in recorded_cases("get_config", family):
        own = optimizer_of(case, family).get_config()
        for config in recorded:
            assert_same_config(own, config)
            before = copy.deepcopy(config)
            for cls in CLASSES.values():
                loaded = configs.from_config(cls, config, package=PACKAGES[family])
                assert_same_config(loaded.get_config(), config)
            assert config == before


def test_recorded_optimizers_are_deserialized(family):
    for _, recorded in recorded_cases("serialize", family):
        for serialized in recorded:
            loaded = configs.deserialize(serialized, package=PACKAGES[family])
            assert_same_config(loaded.get_config(), serialized["config"])


def test_a_config_after_training_has_the_initial_scale(family):
    for case, recorded in recorded_cases("config_after_training", family):
        optimizer, variable = optimizer_of(case, family), tf.Variable(1.0)
        for gradient in (0.5, 0.5, 0.5, 0.5, NAN):
            harness.apply(optimizer, gradient, variable)
        config = optimizer.get_config()
        counts = harness.counts(type(optimizer).from_config(config))
        for result in recorded:
            assert_same_config(config, result["config_after_training"])
            assert float(optimizer.loss_scale) == result["loss_scale_before"]
            assert counts["loss_scale"] == result["loss_scale_of_copy"]
            assert counts["counter"] == result["counter"]


def test_configs_of_the_experimental_class_have_the_layout_of_2_3():
    # In TensorFlow 2.4-2.8, these configs had the layout of the stable class.
    names = {"case": "get_config", "api": "experimental"}
    for case, results in harness.cases("config_roundtrip", "configs", **names):
        layout = set(optimizer_of(case, "legacy").get_config())
        for entry in results:
            is_old = not {"2.4.4", "2.8.4"} & set(entry["versions"])
            assert (layout == set(entry["result"]["ok"])) == is_old
