"""The script that makes the record, on small recordings made here."""

import gzip
import json

import pytest

from tests.golden import extract, extract_behaviour, extract_training


def _recording(result, gradients=((1.0, [2.0]),)):
    entry = {"api": "stable", "inner": "SGD", "style": "tape", "logs": ["a line"]}
    sections = {section: [] for section in extract.SECTIONS}
    sections["loss_scale_classes"] = {
        "Dyn_repr": {"ok": "DynamicLossScale()"},
        "Dyn_vars": {"ok": ["_weights"]},
    }
    sections["extras"] = [
        {"api": "stable", "case": case, "ok": 1}
        for case in ("gradient_aggregator", "restored")
    ]
    sections["trajectories"] = {
        "coeffs": [list(pair) for pair in gradients],
        "runs": [{**entry, **result}, {**entry, "api": "bare", "ok": 0}],
    }
    return {"sections": sections}


def _state(value, scope):
    return {"ok": {"steps": [{"vars": [value], "slots": {scope + "m/v0": 0.5}}]}}


def _read(folder, **recordings):
    for version, recording in recordings.items():
        path = folder / f"TF{version.strip('_').replace('_', '.')}.json"
        path.write_text(json.dumps(recording))
    probe = {"tf": "2.5.3", "rows[of this]": [[1.0]]}
    (folder / "sum_overflow.jsonl").write_text(json.dumps(probe) + "\n")
    return extract.read(folder)


def test_each_different_result_stands_once(tmp_path):
    record = _read(
        tmp_path,
        _2_10_1=_recording(_state(1.5, "SGD/")),
        _2_9_3=_recording(_state(1.5, "cond_1/SGD/")),
        _2_15_1=_recording(_state(2.5, "")),
    )
    (entry,) = record["sections"]["trajectories"]
    assert entry["case"] == {"api": "stable", "inner": "SGD", "style": "tape"}
    assert [r["versions"] for r in entry["results"]] == [
        ["2.9.3", "2.10.1"],
        ["2.15.1"],
    ]
    assert entry["results"][1]["result"] == _state(2.5, "")
    assert record["coefficients"] == [[1.0, [2.0]]]
    assert record["sum_overflow"] == [{"version": "2.5.3", "rows": [[1.0]]}]
    cases = [e["case"]["case"] for e in record["sections"]["loss_scale_classes"]]
    assert cases == ["Dyn_repr"]
    cases = [e["case"]["case"] for e in record["sections"]["extras"]]
    assert cases == ["gradient_aggregator"]


def test_messages_are_left_out(tmp_path):
    error = {"error": "TypeError", "message": "by Python's version", "error_base": "E"}
    record = _read(tmp_path, _2_9_3=_recording(error))
    (entry,) = record["sections"]["trajectories"]
    assert entry["results"] == [
        {"versions": ["2.9.3"], "result": {"error": "TypeError"}}
    ]


def test_refuses_recordings_of_different_gradients(tmp_path):
    other = ((1.0, [3.0]),)
    with pytest.raises(ValueError, match="different gradients"):
        _read(
            tmp_path,
            _2_9_3=_recording({"ok": 1}),
            _2_10_1=_recording({"ok": 1}, other),
        )


def test_equal_records_give_equal_bytes(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    extract.write({"b": 1, "a": [2.5]}, first)
    extract.write({"a": [2.5], "b": 1}, second)
    assert first.read_bytes() == second.read_bytes()
    assert json.loads(gzip.decompress(first.read_bytes())) == {"a": [2.5], "b": 1}


@pytest.mark.parametrize("name", extract.RECORDS)
def test_the_record_is_as_the_script_writes_it(name, tmp_path):
    # So that nobody has edited it by hand.
    again, (path, _) = tmp_path / "again", extract.RECORDS[name]
    extract.write(json.loads(gzip.decompress(path.read_bytes())), again)
    unpacked = gzip.decompress(again.read_bytes())
    assert unpacked == gzip.decompress(path.read_bytes())
    assert path.stat().st_size < 2**20


# --- The sections of `behaviour.json.gz`.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "<tf_keras.src.optimizers.sgd.SGD object at 0xADDR>",
            "<SGD object at 0xADDR>",
        ),
        ("got <a.b.<locals>.C object at 0x7f12ab34cd56>", "got <C object at 0xADDR>"),
        ("<class 'keras.optimizers.sgd.SGD'>", "<class 'SGD'>"),
        ("<callable method>", "<callable>"),
        ("FixedLossScale(8.0)", "FixedLossScale(8.0)"),
    ],
)
def test_texts_have_no_modules_and_addresses(text, expected):
    assert extract_behaviour.plain({"a": [text, 1.5]}) == {"a": [expected, 1.5]}


def test_each_attribute_is_a_case():
    names = {"api": "stable", "family": "v2", "inner": "SGD"}
    recorded = {
        **names,
        "get": {"lr": {"ok": 0.5}, "_hyper": {"ok": {}}, "_optimizer": {"ok": "SGD"}},
        "hasattr": {"lr": True},
        "weights": {"ok": {"before": {"ok": []}, "variables_is_callable": True}},
        "dir": {"ok": ["_hyper", "lr"]},
        "lr_assign": {"ok": [0.25]},
    }
    assert list(extract_behaviour.hyperparameter_entries([recorded])) == [
        {**names, "case": "get", "attribute": "lr", "ok": 0.5},
        {**names, "case": "get", "attribute": "_optimizer", "ok": "SGD"},
        {**names, "case": "weights", "attribute": "before", "ok": []},
        {**names, "case": "weights", "attribute": "variables_is_callable", "ok": True},
        {**names, "case": "dir", "ok": ["lr"]},
        {**names, "case": "lr_assign", "ok": [0.25]},
    ]


def test_each_error_is_a_case():
    recorded = {
        "stable:new:no_args": {"error": "TypeError"},
        "stable:subclassable": {"ok": ["Sub", ["Sub", "object"]]},
    }
    assert list(extract_behaviour.error_entries(recorded)) == [
        {"api": "stable", "family": "new", "case": "no_args", "error": "TypeError"},
        {"api": "stable", "family": "v2", "case": "subclassable", "ok": "Sub"},
    ]


def test_of_loss_scales_it_holds_names_and_messages():
    error = {"error": "ValueError", "message": "no number"}
    recorded = {
        "Fixed_attrs": {"ok": ["_weights", "update"]},
        "Fixed_vars": {"ok": ["_weights"]},
        "Fixed_call": {"ok": 8.0},
        "Fixed_str": error,
        "aliases": {"ok": {"tf.x": True}},
    }
    assert list(extract_behaviour.class_entries(recorded)) == [
        {"case": "Fixed_attrs", "ok": ["update"]},
        {"case": "Fixed_str", **error},
        {"case": "aliases", "ok": {"tf.x": True}},
    ]


# --- The sections of `training.json.gz`.


def test_each_model_and_layer_is_a_case():
    config = {"dynamic": True, "initial_scale": 4.0, "dynamic_growth_steps": 2}
    recorded = {
        "P_is_same_class": {"ok": ["Policy"]},
        "stable:compile": {"ok": {"v2:float16": {"ok": {"config": config}}}},
        "stable:layers": {"ok": {"float16": {"out": "float16", "_private": 1}}},
        "stable:set(x)": {"error": "IndexError", "message": "list index out of range"},
        "experimental": "absent",
        "get_layer_policy(tfvar)": {"error": "ValueError", "message": "no layer"},
    }
    assert list(extract_training.policy_entries(recorded)) == [
        {
            "api": "stable",
            "family": "v2",
            "case": "compile",
            "attribute": "float16",
            "ok": {"scaling": [True, 4.0, 2]},
        },
        {
            "api": "stable",
            "case": "layers",
            "attribute": "float16",
            "ok": {"out": "float16"},
        },
        {
            "api": "experimental",
            "case": "get_layer_policy(tfvar)",
            "error": "ValueError",
            "message": "no layer",
        },
    ]


@pytest.mark.parametrize(
    ("config", "scaling"),
    [
        ({"learning_rate": 0.5}, None),
        (
            {
                "loss_scale": {
                    "class_name": "FixedLossScale",
                    "config": {"loss_scale_value": 8.0},
                }
            },
            [False, 8.0, None],
        ),
    ],
)
def test_the_scaling_is_read_from_configs(config, scaling):
    assert extract_training.scaling(config) == scaling


def test_numbers_that_replicas_share_stand_once():
    row = {"counter": None, "iterations": [2, 2], "scale_per_replica": [4.0, 8.0]}
    run = {"api": "stable", "ok": {"rows": [{**row, "ret": [None]}], "trace": []}}
    error = {"error": "ValueError", "message": "in user code:\n\n    f()\n\n  the end"}
    recorded = {
        "runs": [run],
        "errors": {
            "stable:new:x": error,
            "stable:new:MultiWorkerMirrored_ctor": {"ok": "x"},
        },
    }
    assert list(extract_training.distribution_entries(recorded)) == [
        {
            "api": "stable",
            "case": "run",
            "ok": {"rows": [{**row, "iterations": 2}]},
        },
        {
            "api": "stable",
            "family": "new",
            "case": "x",
            "error": "ValueError",
            "message": "  the end",
        },
    ]


def test_a_warning_is_known_by_what_it_tells():
    text = "You forgot to call LossScaleOptimizer.get_scaled_loss() before calling"
    recorded = {
        "stable:v2:x": {"ok": None, "logs": [["WARNING", text]]},
        "DynamicLossScale": {"ok": "DynamicLossScale"},
    }
    assert list(extract_training.warning_entries(recorded)) == [
        {"api": "stable", "family": "v2", "case": "x", "ok": ["get_scaled_loss"]},
        {"case": "DynamicLossScale", "ok": []},
    ]


def test_slots_stand_without_their_names():
    entry = {"case": "x", "ok": {"slots": {"SGD/m/v": -0.5, "momentum": [0.25]}}}
    (found,) = extract_training.extra_entries(
        [entry, {"case": "mirrored_train_on_batch:x"}]
    )
    assert found == {"case": "x", "ok": {"slots": [-0.5, 0.25]}}
