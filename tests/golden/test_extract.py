"""The script that makes the record, on small recordings made here."""

import gzip
import json

import pytest

from tests.golden import extract


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


def test_the_record_is_as_the_script_writes_it(tmp_path):
    # So that nobody has edited it by hand.
    again = tmp_path / "again"
    extract.write(json.loads(gzip.decompress(extract.RECORD.read_bytes())), again)
    unpacked = gzip.decompress(again.read_bytes())
    assert unpacked == gzip.decompress(extract.RECORD.read_bytes())
    assert extract.RECORD.stat().st_size < 2**20
