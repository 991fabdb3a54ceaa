"""What `training.json.gz` holds of each section of the recordings.

Policies, the graph rewrite, replicas, `compile` and `fit`, warnings and checkpoints: what
a training program does around its steps. Left out are private attributes, modules of
classes, configs of optimizers, which `configs.json.gz` has, and what the recording script
itself could not do.
"""

import re

from tests.golden import extract_behaviour

NOISE = {"logs", "error_base"}

# Private to TensorFlow: how it keeps the scale, and casts variables.
_PRIVATE = {"is_policyv1", "kernel_type", "loss_scale_var_type"}

# What a step returns is replayed elsewhere: `test_trajectories.py::test_returns`.
_RETURNED = {"trace", "ret"}

# Errors of the recording script, which asked a version for what it did not have.
_NOT_RECORDED = (
    {"error": "KeyError", "message": "'new'"},
    {"error": "IndexError", "message": "list index out of range"},
    {"error": "TypeError", "message": "'NoneType' object is not callable"},
)

# A second cluster cannot be in the tests' process; tests/contract has one of its own.
_OTHER_PROCESS = "MultiWorkerMirrored_ctor"


def was_recorded(result):
    """Whether the version was asked at all."""
    error = {k: result[k] for k in ("error", "message") if k in result}
    return error not in _NOT_RECORDED


def own_message(result):
    """The result without the lines on where TensorFlow was when it raised."""
    if "message" in result:
        return {**result, "message": result["message"].strip().splitlines()[-1]}
    return result


def public(value):
    """Return a copy of `value` without private entries, types by their names only."""
    if isinstance(value, list):
        return [public(element) for element in value]
    if not isinstance(value, dict):
        return value
    value = {k: v for k, v in value.items() if not k.startswith("_")}
    return {
        k: v.split(".")[-1] if k in ("type", "optimizer_type") else public(v)
        for k, v in value.items()
        if k not in _PRIVATE
    }


# --- policies


def scaling(config):
    """[dynamic, initial scale, growth steps] in an optimizer's config, or None."""
    if "dynamic" in config:
        names = ("dynamic", "initial_scale", "dynamic_growth_steps")
        return [config[name] for name in names]
    if "loss_scale" not in config:
        return None
    arguments = config["loss_scale"]["config"]
    if config["loss_scale"]["class_name"] == "FixedLossScale":
        return [False, arguments["loss_scale_value"], None]
    return [True, arguments["initial_loss_scale"], arguments["increment_period"]]


def _compiled(result):
    if "ok" not in result:
        return result
    content = dict(result["ok"])
    content["scaling"] = scaling(content.pop("config"))
    return {"ok": content}


def policy_entries(recorded):
    """One entry for each call, each layer, and each model that was compiled."""
    for name, result in recorded.items():
        if name == "P_is_same_class" or result == "absent" or not was_recorded(result):
            continue
        api, _, case = name.rpartition(":")
        api = api or "experimental"  # get_layer_policy, which is there only
        if case == "compile":
            for compiled, of_it in result["ok"].items():
                family, _, attribute = compiled.partition(":")
                names = {"api": api, "family": family, "case": case}
                yield {**names, "attribute": attribute, **public(_compiled(of_it))}
        elif case == "layers":
            for attribute, of_it in result["ok"].items():
                of_it = of_it if "error" in of_it else {"ok": of_it}
                if api == "stable" and "get_layer_policy" in of_it.get("ok", ()):
                    del of_it["ok"]["get_layer_policy"]  # of the other API
                yield {
                    "api": api,
                    "case": case,
                    "attribute": attribute,
                    **public(of_it),
                }
        else:
            yield {"api": api, "case": case, **public(result)}


# --- graph_rewrite


def graph_rewrite_entries(recorded):
    """One entry for each call; the recorder had no newer optimizers before 2.9."""
    for name, result in recorded.items():
        if result == "absent" or not was_recorded(result):
            continue
        if name == "MPLSO methods":
            result = extract_behaviour.public(result)
        yield {"case": name, **public(result)}


# --- distribution


def _each_once(row):
    """The row with one number where all replicas hold it."""
    row = {k: v for k, v in row.items() if k not in _RETURNED}
    for name in ("counter", "iterations", "scale_per_replica"):
        if row[name] is not None and len(set(row[name])) == 1:
            row[name] = row[name][0]
    return row


def distribution_entries(recorded):
    """One entry for each run on two replicas, and for each call of `errors`."""
    for entry in recorded["runs"]:
        entry = {**entry, "case": "run"}
        if "ok" in entry:
            rows = [_each_once(row) for row in entry["ok"]["rows"]]
            entry["ok"] = {**entry["ok"], "rows": rows}
            entry["ok"] = {k: v for k, v in entry["ok"].items() if k not in _RETURNED}
        yield public(own_message(entry))
    for name, result in recorded["errors"].items():
        if name.startswith("DynamicLossScale"):
            yield {"case": name, **own_message(result)}
        elif not name.endswith(_OTHER_PROCESS):
            api, family, case = name.split(":")
            yield {"api": api, "family": family, "case": case, **own_message(result)}


# --- keras_training


def keras_training_entries(recorded):
    """One entry for each model that was trained."""
    for entry in recorded["runs"]:
        if "ok" in entry:
            entry = {**entry, "ok": {"rows": entry["ok"]["rows"]}}
        yield entry


# --- warnings_logged

# What a warning tells of, and how its text is known by that.
TOLD = {
    "get_scaled_loss and get_unscaled_gradients": r"forgot .*get_scaled_loss\(\) and",
    "get_scaled_loss": r"forgot to call \S*get_scaled_loss\(\) before",
    "get_unscaled_gradients": r"forgot to call \S*get_unscaled_gradients\(\) before",
    "deprecated": r"is deprecated",
    "float16 is slow here": r"may run slowly",
}


def warning_entries(recorded):
    """What each call warned of."""
    for name, result in recorded.items():
        *names, case = name.split(":")
        names = dict(zip(("api", "family"), names)) | {"case": case}
        logs = " ".join(text for _, text in result.get("logs", []))
        told = [of for of, pattern in TOLD.items() if re.search(pattern, logs)]
        yield {**names, **({"ok": told} if "ok" in result else result)}


# --- extras


# In `golden.json.gz`; and the batches of the latter were not recorded.
_NOT_HERE = ("gradient_", "mirrored_train_on_batch")


def extra_entries(recorded):
    """The cases that `golden.json.gz` leaves out."""
    for entry in recorded:
        if not entry["case"].startswith(_NOT_HERE):
            yield with_plain_slots(entry)


def with_plain_slots(value):
    """A copy of `value` with slots as [value, ...] alone, whatever they were called."""
    if not isinstance(value, dict):
        return value
    value = {k: with_plain_slots(v) for k, v in value.items()}
    if "slots" in value:
        slots = value["slots"].values()
        value["slots"] = [v[0] if isinstance(v, list) else v for v in slots]
    return value


# Section -> the function that gives its entries, and the keys left out of them.
SECTIONS = {
    "policies": (policy_entries, NOISE),
    "graph_rewrite": (graph_rewrite_entries, NOISE),
    "distribution": (distribution_entries, NOISE),
    "keras_training": (keras_training_entries, NOISE),
    "warnings_logged": (warning_entries, NOISE),
    "extras": (extra_entries, NOISE),
}


def inputs(recorded):
    """The batches and first weights of `keras_training`."""
    return {name: recorded[name] for name in ("X", "Y", "W")}
