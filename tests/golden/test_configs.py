"""The recorded configs on tf_lso: each is equal, or a difference listed here.

Configs of other versions differ in how they name a class and in keys that came with a
version; `plain` leaves out just these. Those of tf_keras are compared as they are.
"""

import re

import pytest

from tests.families import here
from tests.golden import collecting, harness, replay_configs, replays
from tf_lso import keras_configs

FAMILIES = {"v2": here("legacy", "keras3"), "new": here("new", "keras3")}
OLD_LAYOUT = ("2.4.4", "2.8.4")


def _parameters():
    for case, results in harness.cases("config_roundtrip", "configs"):
        for family in FAMILIES[case.get("family", "v2")]:
            yield pytest.param(
                case, results, family, id=f"{harness.name_of(case)}-{family}"
            )


PARAMETERS = list(_parameters())

# --- What tf_lso does otherwise: pattern of the case made by hand -> what it gives. The
# first that matches.

LOADS = "every layout is read by every class and name"
NAMED = "ValueError that names the key, not KeyError of it"

# fmt: off
HANDMADE = [
    ("optimizers.get:.*", NAMED, {"error": "ValueError"}),
    ("(stable|experimental):gen23_bogus", NAMED, {"error": "ValueError"}),
    ("(stable|experimental):gen23_dynamic_mult4", LOADS,
     {"ok": {"type": "LossScaleOptimizer", "loss_scale": 16.0}}),
    ("(stable|experimental):gen24_minimal", LOADS,
     {"ok": {"type": "LossScaleOptimizer", "loss_scale": 32768.0}}),
    ("(stable|experimental):(gen2|keras3).*", LOADS,
     {"ok": {"type": "LossScaleOptimizer", "loss_scale": 16.0}}),
    ("deserialize:loss_scale_optimizer:.*", "an unknown name is refused",
     {"error": "ValueError"}),
    ("deserialize:.*", LOADS,
     {"ok": {"type": "LossScaleOptimizer", "loss_scale": 16.0}}),
]
# fmt: on


@collecting.each(
    [p for p in PARAMETERS if "api" not in p.values[0]],
    by=lambda case, results, family: family,
)
def test_made_by_hand(case, results, family):
    actual = replay_configs.handmade(case["case"], family)
    layout = set(actual.get("ok", {}).pop("config", {})) if _is_dict(actual) else None
    for entry in results:
        if _is_dict(entry["result"]):
            recorded = dict(entry["result"]["ok"])
            wanted = _layout(recorded.pop("config", None), case)
            assert layout is None or wanted is None or layout - {"name"} == wanted
            recorded["type"] = recorded["type"].removesuffix("V1")
            if replays.equal(actual, {"ok": recorded}):
                continue
        elif replays.equal(actual, entry["result"]):
            continue
        pattern, reason, expected = next(
            d for d in HANDMADE if re.fullmatch(d[0], case["case"])
        )
        del pattern
        assert replays.equal(actual, expected), f"{entry['versions']}: {reason}"


def _is_dict(result):
    return isinstance(result.get("ok"), dict)


def _layout(config, case):
    if config is None:
        return None
    if case["case"].startswith("experimental:"):
        return {"optimizer", "loss_scale"}  # in 2.4-2.8 that of the stable class
    return set(config)


# --- Configs of optimizers.


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


def _configs(value):
    """The recorded config in a result, and its place."""
    if "inner_optimizer" in value or "optimizer" in value:
        return None, value
    for key in ("config", "config_after_training"):
        if key in value:
            return key, value[key]
    return None, None


def _equal(actual, recorded, exact):
    place, wanted = _configs(recorded)
    _, given = _configs(actual)
    if wanted is None:
        return replays.equal(actual, recorded)
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
        if not replays.equal(*rest):
            return False
    return replays.equal(
        plain(given, names - lacking),
        plain(wanted, names - lacking),
        False,  # a learning rate in a variable is a float32
    )


def _expected(case, recorded):
    """What tf_lso gives, from what was recorded: the differences."""
    if case["case"] == "json_serializable":
        return {"ok": True}  # those of 2.9-2.11 held NumPy numbers
    if case["case"] == "from_config_own":
        # One class for all; input is never changed.
        change = {"type": "LossScaleOptimizer", "config_mutated": False}
        return {"ok": {**recorded["ok"], **change}}
    if case["case"] == "deserialize_serialize":
        return {"ok": {**recorded["ok"], "type": "LossScaleOptimizer"}}
    return recorded


@collecting.each(
    [p for p in PARAMETERS if "api" in p.values[0]],
    by=lambda case, results, family: f"{case['case']}-{family}",
)
def test_of_an_optimizer(case, results, family):
    for entry in results:
        recorded = entry["result"]
        actual = replay_configs.roundtrip(case, recorded, family)
        expected = _expected(case, recorded)
        exact = (
            case["case"] in ("get_config", "serialize", "deserialize_serialize")
            and case["api"] == "stable"
            and family != "keras3"
            and harness.REFERENCE in entry["versions"]
            and harness.SAME_KERNELS
        )
        assert "ok" in actual, actual
        if isinstance(expected["ok"], dict):
            assert _equal(actual["ok"], expected["ok"], exact), (actual, recorded)
        else:
            assert replays.equal(actual, expected), actual


def test_configs_of_the_experimental_class_have_the_layout_of_2_3():
    # In 2.4-2.8 they had the layout of the stable class.
    for case, results in harness.cases(
        "config_roundtrip", "configs", case="get_config", api="experimental"
    ):
        actual = replay_configs.roundtrip(case, None, "legacy")["ok"]
        for entry in results:
            same = set(actual) == set(entry["result"]["ok"])
            assert same == (not set(OLD_LAYOUT) & set(entry["versions"]))
