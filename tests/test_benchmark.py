"""The benchmark: that it measures what it says. How long anything takes is no test."""

import gc
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tools.benchmarks import __main__ as command
from tools.benchmarks import (
    candidates,
    choices,
    counting,
    figures,
    measure,
    one_process,
    plan,
    report,
    running,
    shapes,
    workloads,
)

ROOT = Path(__file__).parents[1]


def job(family="keras3", mode="function", names=("tiny",), what="time", **kwargs):
    """A job of all candidates of a family."""
    chosen = choices.candidates_of(family)
    defaults = {"strategy": "default", "candidates": chosen, "rounds": 2}
    fields = {**defaults, **kwargs}
    return plan.Job(what=what, mode=mode, family=family, workloads=[*names], **fields)


def run_tool(*arguments):
    """What the tool prints, called as a user does but for the environment."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.benchmarks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class TestTheTool:
    def test_writes_figures_table_and_plots(self, tmp_path):
        quick = ("--quick", "--modes", "function", "--families", "keras3")
        printed = run_tool(*quick, "--out", str(tmp_path))
        result = json.loads((tmp_path / "benchmark.json").read_text())
        assert result["failures"] == []
        assert result["environment"]["tensorflow"] == tf.__version__
        assert result["workloads"]["tiny"]["tensors"] == 4
        by_name = {r["candidate"]: r for r in result["figures"]}
        assert list(by_name) == list(choices.CANDIDATES)
        for name, record in by_name.items():
            assert "skipped" not in record, record
            assert len(record["seconds"]) == 3 and record["ms"] > 0
            assert record["traces"] == 1 and record["collectives"] == 0
            if name != choices.BARE:
                assert {"added_ms", "added_iqr_ms", "added_quartiles"} < set(record)
                assert {f"ratio_to_{x}" for x in ("peer", "best_peer", "floor")} < set(
                    record
                )
                assert record["operations_per_gradient"] > 0
            assert re.search(rf"^keras3  {name} .*\d", printed, re.MULTILINE)
        if importlib.util.find_spec("matplotlib"):
            plots = {path.name for path in tmp_path.glob("*.png")}
            assert plots == {
                "added-by-tensors-default.png",
                "added-by-bytes-default.png",
            }
        again = run_tool("--read", str(tmp_path / "benchmark.json"), "--markdown")
        assert "| keras3 | tf_lso fixed |" in again

    @pytest.mark.slow
    @pytest.mark.multiworker
    @pytest.mark.parametrize(
        ("strategy", "collectives"), [("mirrored2", 2), ("multiworker2", 1)]
    )
    def test_measures_several_replicas(self, tmp_path, strategy, collectives):
        quick = ("--quick", "--modes", "function", "--families", "legacy")
        run_tool(*quick, "--strategies", strategy, "--out", str(tmp_path))
        result = json.loads((tmp_path / "benchmark.json").read_text())
        assert {r["collectives"] for r in result["figures"]} == {collectives}

    @pytest.mark.slow
    def test_sees_a_dense_temporary_in_the_peak_memory(self, tmp_path):
        quick = ("--quick", "--modes", "function", "--families", "keras3")
        run_tool(
            *quick,
            *("--workloads", "embedding", "--candidates", "peer,tf_lso"),
            *("--memory", "--out", str(tmp_path)),
        )
        result = json.loads((tmp_path / "benchmark.json").read_text())
        added = {r["candidate"]: r["added_peak_mb"] for r in result["figures"]}
        assert added["peer"] > 60  # a byte or more for each of 64 M values
        assert added["tf_lso"] < 20

    def test_help_names_every_option_and_choice(self):
        text = (ROOT / "tools/benchmarks/help.txt").read_text(encoding="utf-8")
        options = [o for a in command.parser()._actions for o in a.option_strings]
        names = [*choices.MODES, *choices.STRATEGIES, *choices.FAMILIES]
        names += [*workloads.WORKLOADS, *choices.CANDIDATES]
        for name in (*(o for o in options if o not in ("-h", "--help")), *names):
            assert re.search(rf"{re.escape(name)}\b", text), name

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--modes", "lazy"], "'lazy': use eager, function, xla"),
            (["--workloads", "tiny,huge"], "no workload 'huge'"),
            (["--rounds", "0"], "must be at least 1"),
        ],
    )
    def test_refuses_what_it_does_not_know(self, arguments, message, capsys):
        with pytest.raises(SystemExit):
            command.main(arguments)
        assert message in capsys.readouterr().err


class TestWorkloads:
    def test_have_the_shapes_of_the_networks(self):
        # The numbers of trainable parameters that the papers' code prints.
        resnet, bert = workloads.get("resnet50"), workloads.get("bert")
        assert (len(resnet.gradients), resnet.values) == (161, 25_557_032)
        assert (len(bert.gradients), bert.values) == (199, 109_482_240)
        assert shapes.resnet50()[0] == (7, 7, 3, 64)

    def test_of_any_size(self):
        sized = workloads.get("100x256")
        assert (len(sized.gradients), sized.values) == (100, 25_600)
        for name in ("0x5", "5x", "x", "tin"):
            with pytest.raises(ValueError, match="no workload"):
                workloads.get(name)

    def test_sparse_ones_count_the_rows_touched(self):
        embedding = workloads.get("embedding")
        assert embedding.bytes == 4 * 64 * 64
        assert embedding.variable_bytes == 4 * 64 * 1_000_000


_SMALL_SPARSE = workloads.Workload(
    "sparse", "", (workloads.Gradient((8, 2), rows=2), workloads.Gradient((3,)))
)


class TestCandidates:
    @pytest.mark.parametrize("mode", ["eager", "function"])
    @pytest.mark.parametrize("name", ["tiny", "model", "sparse"])
    def test_take_the_same_step(self, family, mode, name, monkeypatch):
        """What is timed is the step of the bare optimizer, with unscaled gradients."""
        workload = _SMALL_SPARSE if name == "sparse" else workloads.get(name)
        if not workload.trains:  # the usual steps vanish in rounding, once unscaled
            monkeypatch.setattr(candidates, "_LEARNING_RATE", 100.0)
        setting = one_process.Setting(job(family, mode), workload, None)
        start = [v.numpy() for v in setting._variables]
        moved = {}
        for candidate in choices.candidates_of(family):
            for variable, value in zip(setting._variables, start):
                variable.assign(value)
            setting.enter(candidate)
            assert "skipped" not in setting._records[candidate], setting._records
            moved[candidate] = [
                v.numpy() - value for v, value in zip(setting._variables, start)
            ]
        bare = moved.pop(choices.BARE)
        assert all(np.abs(change).max() > 0 for change in bare)
        # Only a loss in a tape is scaled; the floor rescales it all the same.
        down = 1.0 if workload.trains else 2.0**-15
        for candidate, changes in moved.items():
            factor = 2.0**-15 if candidate == choices.FLOOR else down
            for change, expected in zip(changes, bare, strict=True):
                # To the last bits of variables of about 0.1.
                np.testing.assert_allclose(
                    change, expected * factor, rtol=1e-3, atol=3e-8
                )

    def test_that_fail_are_noted_with_the_reason(self, monkeypatch):
        def refuse(family, inner):
            raise RuntimeError("cannot\nbe compiled")

        monkeypatch.setitem(candidates._WRAPPERS, choices.PEER, refuse)
        setting = one_process.Setting(job(), workloads.get("tiny"), None)
        for name in (choices.BARE, choices.PEER):
            setting.enter(name)
        bare, peer = figures.complete(setting.timed())
        assert "seconds" in bare and "seconds" not in peer
        assert peer["skipped"] == "RuntimeError: cannot"

    def test_that_need_too_much_memory_are_left_out(self, monkeypatch):
        monkeypatch.setattr(counting, "available_bytes", lambda: 10_000)
        records = one_process._of_workload(job(), workloads.get("tiny"), None)
        assert len(records) == len(choices.CANDIDATES)
        assert all("GB of memory" in record["skipped"] for record in records)


def test_each_round_rotates_the_order_and_collects_no_garbage_within():
    order, collecting = [], []

    def step(name):
        def call():
            order.append(name)
            collecting.append(gc.isenabled())

        return call

    times = measure.rounds({name: step(name) for name in "abc"}, 4, 2)
    assert "".join(order) == "aabbcc" + "bbccaa" + "ccaabb" + "aabbcc"
    assert not any(collecting) and gc.isenabled()
    assert {name: len(seconds) for name, seconds in times.items()} == {
        "a": 4,
        "b": 4,
        "c": 4,
    }


_CHOSEN = {
    "modes": ["function", "xla"],
    "strategies": ["default", "mirrored2"],
    "families": ["keras3", "new"],
    "workloads": ["tiny", "model"],
    "candidates": [choices.OURS, choices.LEGACY_PROTOCOL],
    "rounds": 7,
}


class TestPlan:
    def test_has_a_process_for_each_mode_strategy_and_family(self):
        jobs, left_out = plan.jobs(**_CHOSEN, memory=False)
        assert [(j.mode, j.strategy, j.family) for j in jobs] == [
            (mode, strategy, family)
            for mode, strategy in (
                ("function", "default"),
                ("xla", "default"),
                ("function", "mirrored2"),
            )
            for family in ("keras3", "new")
        ]
        assert [len(j.candidates) for j in jobs[:2]] == [3, 2]  # with bare
        assert {r["mode"] for r in left_out} == {"xla"}
        assert all("does not compile" in r["skipped"] for r in left_out)

    def test_has_a_process_for_each_candidates_memory(self):
        jobs, _ = plan.jobs(**_CHOSEN, memory=True)
        memory = [j for j in jobs if j.what == "memory" and j.family == "keras3"]
        assert {(len(j.workloads), len(j.candidates)) for j in memory} == {(1, 1)}
        assert len(memory) == 3 * 2 * 3


class TestRunning:
    def test_a_process_that_fails_keeps_what_it_has_measured(self):
        broken = job(names=["tiny", "nonsense"], candidates=[choices.BARE])
        tiny, nonsense = running.run(broken, 120)[0]
        assert len(tiny["seconds"]) == 2
        assert "no workload 'nonsense'" in nonsense["skipped"]

    def test_a_process_that_takes_too_long_is_killed(self):
        records, failure = running.run(job(), 1)
        assert "killed" in failure
        assert all("still running after 1 s" in r["skipped"] for r in records)
        assert len(records) == len(choices.CANDIDATES)


def record(candidate, seconds, **measured):
    made = plan.record_of(job(), "tiny", candidate, seconds=seconds)
    return {**made, **measured}


class TestFigures:
    def test_compare_within_a_round(self):
        # The machine is slower in the second round; the difference is not.
        low, middle, high = figures.added([0.003, 0.013, 0.003], [0.001, 0.011, 0.002])
        assert middle == pytest.approx(2.0)
        assert (low, high) == (pytest.approx(1.5), pytest.approx(2.0))
        assert figures.added([0.003], [0.001]) == [pytest.approx(2.0)] * 3

    def test_are_ratios_of_added_time(self):
        bare, peer, ours, floor = figures.complete(
            [
                record(choices.BARE, [0.010] * 4, operations=10),
                record(choices.PEER, [0.014] * 4, operations=30),
                record(choices.OURS, [0.012] * 4, operations=22),
                record(choices.FLOOR, [0.011] * 4, operations=14),
            ]
        )
        assert "added_ms" not in bare and bare["ms"] == pytest.approx(10)
        assert ours["added_ms"] == pytest.approx(2)
        assert ours["ratio_to_peer"] == pytest.approx(0.5)
        assert ours["ratio_to_floor"] == pytest.approx(2)
        assert ours["operations_per_gradient"] == 3  # four gradients
        assert floor["ratio_to_best_peer"] == pytest.approx(0.25)
        assert peer["ratio_to_peer"] == 1

    def test_the_best_peer_may_be_of_another_family(self):
        records = [record(choices.BARE, [0.01] * 4), record(choices.PEER, [0.02] * 4)]
        for family, seconds in (("legacy", 0.012), ("new", 0.013)):
            for name, value in ((choices.BARE, 0.01), (choices.PEER, seconds)):
                records.append(record(name, [value] * 4, family=family))
        peer = figures.complete(records)[1]
        assert peer["ratio_to_best_peer"] == pytest.approx(5)

    def test_a_ratio_to_noise_is_none(self):
        noisy = [0.0101, 0.0120, 0.0080, 0.0101]
        _, _, ours = figures.complete(
            [
                record(choices.BARE, [0.010] * 4),
                record(choices.PEER, noisy),
                record(choices.OURS, [0.012] * 4),
            ]
        )
        assert ours["ratio_to_peer"] is None

    def test_join_time_and_memory(self):
        memory = [
            {**record(name, None), "what": "memory", "peak_bytes": peak}
            for name, peak in ((choices.BARE, 5_000_000), (choices.OURS, 7_500_000))
        ]
        times = [record(choices.BARE, [0.01] * 3), record(choices.OURS, [0.02] * 3)]
        bare, ours = figures.complete([*times, *memory])
        assert ours["added_peak_mb"] == 2.5 and ours["added_ms"] == pytest.approx(10)
        assert bare["added_peak_mb"] == 0

    def test_are_shown_in_columns_that_have_something(self):
        done = figures.complete(
            [
                record(choices.BARE, [0.010] * 4),
                record(choices.OURS, [0.0125] * 4),
                plan.record_of(job(), "tiny", choices.PEER, skipped="a reason"),
            ]
        )
        text = report.table(done)
        assert "tiny MLP (4 tensors, 2.8 k values) · function · default" in text
        assert re.search(
            r"^keras3  tf_lso +12\.50 +2\.500 +0\.000$", text, re.MULTILINE
        )
        assert "not measured: peer (function, default, keras3, tiny): a reason" in text
        assert "traces" not in text and "peer" not in text.splitlines()[1]
        assert "| keras3 | tf_lso | 12.50 | 2.500 | 0.000 |" in report.table(done, True)


def graph_of(function, *arguments):
    return tf.function(function).get_concrete_function(*arguments).graph


_SCALAR = tf.TensorSpec([], tf.float32)


class TestCounting:
    def test_operations_of_a_called_function_count_once_for_each_call(self):
        @tf.function
        def inner(x):
            return tf.sin(x)

        counted = counting.operations(graph_of(lambda x: inner(inner(x)), _SCALAR))
        assert counted["Sin"] == 2

    def test_both_branches_of_a_conditional_count(self):
        def step(x):
            return tf.cond(x > 0, lambda: tf.sin(x), lambda: tf.sin(x) + tf.cos(x))

        counted = counting.operations(graph_of(step, _SCALAR))
        assert (counted["Sin"], counted["Cos"]) == (2, 1)

    def test_the_body_of_a_loop_counts_once(self):
        def step(x):
            return tf.while_loop(lambda x: x < 9, lambda x: (tf.exp(x),), [x])

        assert counting.operations(graph_of(step, _SCALAR))["Exp"] == 1

    def test_collectives_are_found_in_branches_too(self):
        def reduce(x):
            return tf.raw_ops.CollectiveReduceV2(
                input=x,
                group_size=2,
                group_key=1,
                instance_key=1,
                ordering_token=[],
                merge_op="Add",
                final_op="Id",
            )

        def step(x):
            return tf.cond(x > 0, lambda: reduce(x), lambda: x) + reduce(x)

        assert counting.collectives(graph_of(step, _SCALAR)) == 2
        assert counting.collectives(graph_of(lambda x: x + x, _SCALAR)) == 0

    def test_the_hosts_part_is_found(self):
        def step(x):
            tf.cond(x > 0, lambda: tf.print(x), tf.no_op)
            return tf.py_function(lambda x: x, [x], tf.float32)

        assert counting.host_operations(graph_of(step, _SCALAR)) == [
            "EagerPyFunc",
            "PrintV2",
        ]
        assert counting.host_operations(graph_of(tf.sin, _SCALAR)) == []

    def test_traces(self):
        function = tf.function(lambda x: x + 1)
        for value in (1.0, 2.0, [1.0]):
            function(tf.constant(value))
        assert counting.traces(function) == 2

    @pytest.mark.skipif(
        not Path("/proc/self/status").exists(), reason="Linux tells this in /proc"
    )
    def test_memory(self):
        before = counting.resident_bytes()
        assert counting.reset_peak()
        reserved = np.ones(30_000_000, np.uint8)
        assert counting.resident_bytes() > before + 25_000_000
        del reserved
        assert counting.peak_bytes() > before + 25_000_000
        assert counting.available_bytes() > 0
