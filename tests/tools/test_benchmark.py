"""The benchmark: that it measures what it says. How long anything takes is no test."""

import argparse
import functools
import gc
import json
import re
import signal
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests import counting
from tests.processes import run_workers
from tools.benchmarks import __main__ as command
from tools.benchmarks import one_process, plan, report


def job(family="keras3", mode="function", name="tiny", strategy="default"):
    """A job of all candidates of a family."""
    chosen = plan.candidates_of(family)
    return plan.Job("time", mode, strategy, family, name, chosen, 2)


def figures_in(folder):
    result = json.loads((folder / "benchmark.json").read_text())
    assert result["failures"] == []
    return result["figures"]


@pytest.fixture
def tool(monkeypatch, tmp_path):
    """Runs the tool, whose processes begin with TensorFlow imported, which is sooner."""
    begin = functools.partial(run_workers, after_tensorflow=True)
    monkeypatch.setattr(command, "run_workers", begin)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    usual = ("--modes", "function", "--families", "keras3", "--out", str(tmp_path))
    return lambda *arguments: command.main([*usual, *arguments])


# Of the candidates' times the tests that give this read none.
ONE_ROUND = ("--quick", "--rounds", "1")


class TestTheTool:
    def test_writes_figures_table_and_plots(self, tool, tmp_path, capsys):
        assert tool("--quick") == 0
        printed = capsys.readouterr().out
        assert f"tensorflow {tf.__version__}" in printed
        by_name = {r["candidate"]: r for r in figures_in(tmp_path)}
        assert list(by_name) == list(plan.CANDIDATES)
        for name, record in by_name.items():
            assert "skipped" not in record, record
            assert len(record["seconds"]) == 3 and record["ms"] > 0
            assert record["traces"] == 1 and record["collectives"] == 0
            if name != plan.BARE:
                assert {"added_ms", "added_iqr_ms", "added_quartiles"} < set(record)
                ratios = {f"ratio_to_{x}" for x in ("peer", "best_peer", "floor")}
                assert ratios < set(record)
                assert record["operations_per_gradient"] > 0
            title = plan.title(name, "keras3")
            assert re.search(rf"^\| +keras3 \| +{title} \| .*\d", printed, re.MULTILINE)
        assert "peer" not in printed and "floor" not in printed
        plots = [path.name for path in tmp_path.glob("*.png")]
        assert plots == ["added-default-function.png"]

    @pytest.mark.slow
    @pytest.mark.multiworker
    @pytest.mark.parametrize(
        ("strategy", "collectives"), [("mirrored2", 2), ("multiworker2", 1)]
    )
    def test_measures_several_replicas(self, tool, tmp_path, strategy, collectives):
        chosen = ("--families", "legacy", "--strategies", strategy)
        assert tool(*ONE_ROUND, *chosen) == 0
        assert {r["collectives"] for r in figures_in(tmp_path)} == {collectives}

    @pytest.mark.slow
    def test_sees_a_dense_temporary_in_the_peak_memory(self, tool, tmp_path):
        chosen = ("--workloads", "embedding", "--candidates", "peer,tf_lso", "--memory")
        assert tool(*ONE_ROUND, *chosen) == 0
        added = {r["candidate"]: r["added_peak_mb"] for r in figures_in(tmp_path)}
        assert added["peer"] > 60  # a byte or more for each of 64 M values
        assert added["tf_lso"] < 20

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--modes", "lazy"], "'lazy': use eager, function, xla"),
            (["--workloads", "0x5"], "'0x5': use tiny,"),
            (["--workloads", "tiny,huge"], "'huge': use tiny,"),
            (["--rounds", "0"], "must be at least 1"),
        ],
    )
    def test_refuses_what_it_does_not_know(self, arguments, message, capsys):
        with pytest.raises(SystemExit):
            command.main(arguments)
        assert message in capsys.readouterr().err

    def test_a_process_that_fails_is_noted_with_the_reason(
        self, tool, monkeypatch, capsys, tmp_path
    ):
        monkeypatch.setitem(plan.WORKLOADS, "nonsense", None)  # for the parent alone
        assert tool("--workloads", "nonsense") == 1
        said = capsys.readouterr().err
        assert said.startswith("time, function, default, keras3, nonsense failed:")
        result = json.loads((tmp_path / "benchmark.json").read_text())
        assert [f.strip() for f in result["failures"]] == [said.strip()]
        assert result["figures"] == []

    def test_a_process_that_takes_too_long_is_killed(self, monkeypatch):
        monkeypatch.setattr(command, "_SECONDS", 1)
        with pytest.raises(AssertionError, match="still running after 1 s"):
            command.run(job())


def test_workloads_have_the_shapes_of_the_networks():
    # The numbers of trainable parameters that the papers' code prints.
    resnet, bert = plan.workload("resnet50"), plan.workload("bert")
    assert (len(resnet.shapes), resnet.values) == (161, 25_557_032)
    assert (len(bert.shapes), bert.values) == (199, 109_482_240)
    assert plan.workload("embedding").values == 64 * 64  # of the rows touched
    assert plan.workload("100x256").values == 25_600


class TestCandidates:
    @pytest.mark.parametrize("mode", ["eager", "function"])
    @pytest.mark.parametrize("name", ["tiny", "model", "sparse"])
    def test_take_the_same_step(self, family, mode, name, monkeypatch):
        """What is timed is the step of the bare optimizer, with unscaled gradients."""
        sparse = plan.Workload("", [(8, 2), (4, 3)], rows=2)
        monkeypatch.setitem(plan.WORKLOADS, "sparse", sparse)
        trains = plan.workload(name).trains
        if not trains:  # the usual steps vanish in rounding, once unscaled
            monkeypatch.setattr(one_process, "_LEARNING_RATE", 100.0)
        setting = one_process.Setting(job(family, mode, name))
        start = [v.numpy() for v in setting.variables]
        moved = {}
        for candidate in plan.candidates_of(family):
            for variable, value in zip(setting.variables, start):
                variable.assign(value)
            record = setting.record(candidate)
            assert "skipped" not in record, record
            now = [v.numpy() for v in setting.variables]
            moved[candidate] = [a - b for a, b in zip(now, start)]
        bare = moved.pop(plan.BARE)
        assert all(np.abs(change).max() > 0 for change in bare)
        close = {"rtol": 1e-3, "atol": 3e-8}  # to the last bits of about 0.1
        for candidate, changes in moved.items():
            # Only a loss in a tape is scaled; the floor rescales it all the same.
            factor = 2.0**-15 if candidate == plan.FLOOR or not trains else 1.0
            for change, expected in zip(changes, bare, strict=True):
                np.testing.assert_allclose(change, expected * factor, **close)

    def test_that_fail_are_noted_with_the_reason(self, monkeypatch):
        def refuse(name, job, setting):
            if name == plan.PEER:
                raise RuntimeError("cannot\nbe compiled")
            return candidate(name, job, setting)

        candidate = one_process._candidate
        monkeypatch.setattr(one_process, "_candidate", refuse)
        setting = one_process.Setting(job())
        records = [setting.record(name) for name in (plan.BARE, plan.PEER)]
        setting.time()
        bare, peer = report.figures(records)
        assert "seconds" in bare and "seconds" not in peer
        assert peer["skipped"] == "RuntimeError: cannot"


def test_each_round_rotates_the_order_and_collects_no_garbage_within():
    order, collecting = [], []

    def step(name):
        order.append(name)
        collecting.append(gc.isenabled())

    steps = {name: lambda name=name: step(name) for name in "abc"}
    times = one_process.in_turns(steps, 4, 2)
    assert "".join(order) == "aabbcc" + "bbccaa" + "ccaabb" + "aabbcc"
    assert not any(collecting) and gc.isenabled()
    assert {name: len(times[name]) for name in times} == {"a": 4, "b": 4, "c": 4}


@pytest.mark.parametrize("memory", [False, True])
def test_the_plan_has_a_process_for_each_setting_and_workload(memory):
    options = argparse.Namespace(
        modes=["function", "xla"],
        strategies=["default", "mirrored2"],
        families=["keras3", "new"],
        workloads=["tiny", "model"],
        candidates=[plan.OURS, plan.LEGACY_PROTOCOL],
        rounds=7,
        memory=memory,
    )
    jobs = command.jobs(options)
    timed = [j for j in jobs if j.what == "time"]
    assert [j[1:5] for j in timed] == [
        (mode, strategy, family, workload)
        for mode in ("function", "xla")
        # TensorFlow compiles no steps of several logical replicas.
        for strategy in ("default", "mirrored2")[: 1 if mode == "xla" else 2]
        for family in ("keras3", "new")
        for workload in ("tiny", "model")
    ]
    assert {j.family: len(j.candidates) for j in timed} == {"keras3": 3, "new": 2}
    assert {j.rounds for j in timed} == {7}
    # A process for each candidate's memory.
    one = [j for j in jobs if j.what == "memory"]
    assert {len(j.candidates) for j in one} <= {1}
    assert len(one) == sum(len(j.candidates) for j in timed) * memory


def record(candidate, seconds, **measured):
    """What was measured of a candidate; `seconds` is None if that was not timed."""
    fields = dict(zip(plan.Job._fields[1:5], job()[1:5]))
    timed = {} if seconds is None else {"seconds": seconds}
    return {**fields, "candidate": candidate, **timed, **measured}


class TestFigures:
    def test_compare_within_a_round(self):
        # The machine is slower in the second round; the difference is not.
        quartiles = report.added([0.003, 0.013, 0.003], [0.001, 0.011, 0.002])
        assert quartiles == pytest.approx([1.5, 2.0, 2.0])
        assert report.added([0.003], [0.001]) == [pytest.approx(2.0)] * 3

    def test_are_ratios_of_added_time(self):
        bare, peer, ours, floor = report.figures(
            [
                record(plan.BARE, [0.010] * 4, operations=10, peak_bytes=5_000_000),
                record(plan.PEER, [0.014] * 4, operations=30),
                record(plan.OURS, [0.012] * 4, operations=22),
                record(plan.FLOOR, [0.011] * 4, operations=14),
                record(plan.OURS, None, peak_bytes=7_500_000),
            ]
        )
        assert "added_ms" not in bare and bare["ms"] == pytest.approx(10)
        assert ours["added_ms"] == pytest.approx(2) and ours["added_peak_mb"] == 2.5
        assert ours["ratio_to_peer"] == pytest.approx(0.5)
        assert ours["ratio_to_floor"] == pytest.approx(2)
        assert ours["operations_per_gradient"] == 3  # four gradients
        assert floor["ratio_to_best_peer"] == pytest.approx(0.25)
        assert peer["ratio_to_peer"] == 1

    def test_the_best_peer_may_be_of_another_family(self):
        records = []
        for family, seconds in (("keras3", 0.02), ("legacy", 0.012), ("new", 0.013)):
            for name, value in ((plan.BARE, 0.01), (plan.PEER, seconds)):
                records.append(record(name, [value] * 4, family=family))
        assert report.figures(records)[1]["ratio_to_best_peer"] == pytest.approx(5)

    def test_a_ratio_to_noise_is_none(self):
        noisy = [0.0101, 0.0120, 0.0080, 0.0101]
        records = [record(plan.BARE, [0.010] * 4), record(plan.PEER, noisy)]
        ours = report.figures([*records, record(plan.OURS, [0.012] * 4)])[2]
        assert ours["ratio_to_peer"] is None

    def test_are_shown_in_columns_that_have_something(self):
        records = [record(plan.BARE, [0.010] * 4), record(plan.OURS, [0.0125] * 4)]
        records.append(record(plan.PEER, None, skipped="a reason"))
        table, left_out = report.tables(report.figures(records))
        assert "tiny MLP (4 tensors, 2,762 values) · function · default" in table
        assert re.search(r"keras3 \| +tf_lso \| 12\.50 \| +2\.500 \| 0\.000 \|$", table)
        where = "function, default, tiny, keras3, Keras 3"
        assert left_out == f"- Not measured ({where}): a reason"
        assert "traces" not in table and "/ framework" not in table


def test_a_plot_shows_every_figure(tmp_path, monkeypatch):
    """A panel for each workload; bars of nothing and below zero have their numbers."""
    saved = []
    monkeypatch.setattr("matplotlib.pyplot.close", saved.append)
    records = []
    for family in ("keras3", "legacy"):
        for workload in ("tiny", "10x4096"):
            for name, ms in ((plan.PEER, 12.0), (plan.OURS, -0.5), (plan.FLOOR, 0.0)):
                made = record(name, None, family=family, workload=workload)
                records.append(made | {"added_ms": ms, "added_quartiles": [-1, 13]})
    report.draw(records, tmp_path)
    assert (tmp_path / "added-default-function.png").stat().st_size
    (figure,) = saved
    titles = [panel.get_title() for panel in figure.axes]
    assert titles == ["tiny MLP", "4096 values each"]
    for panel in figure.axes:
        assert [text.get_text() for text in panel.texts] == ["12", "-0.5", "0"] * 2
        assert [bar.get_height() for bar in panel.patches] == [12, -0.5, 0] * 2
        assert len({bar.get_x() for bar in panel.patches}) == 6  # none hides another
    (legend,) = figure.legends
    labels = [text.get_text() for text in legend.texts]
    assert labels == ["Keras 3", "tf_keras", "tf_lso", "check and divide only"]


def graph_of(function, *arguments):
    return tf.function(function).get_concrete_function(*arguments).graph


_SCALAR = tf.TensorSpec([], tf.float32)


class TestCounting:
    def test_operations_of_a_called_function_count_once_for_each_call(self):
        inner = tf.function(lambda x: tf.sin(x))
        counted = counting.operations(graph_of(lambda x: inner(inner(x)), _SCALAR))
        assert counted["Sin"] == 2

    def test_both_branches_of_a_conditional_count_and_the_body_of_a_loop_once(self):
        def step(x):
            (x,) = tf.while_loop(lambda x: x < 9, lambda x: (tf.exp(x),), [x])
            return tf.cond(x > 0, lambda: tf.sin(x), lambda: tf.sin(x) + tf.cos(x))

        counted = counting.operations(graph_of(step, _SCALAR))
        assert (counted["Sin"], counted["Cos"], counted["Exp"]) == (2, 1, 1)

    def test_collectives_are_found_in_branches_too(self):
        def reduce(x):
            keys = {"group_size": 2, "group_key": 1, "instance_key": 1}
            operations = {"merge_op": "Add", "final_op": "Id"}
            return tf.raw_ops.CollectiveReduceV2(
                input=x, ordering_token=[], **keys, **operations
            )

        def step(x):
            return tf.cond(x > 0, lambda: reduce(x), lambda: x) + reduce(x)

        assert counting.collectives(graph_of(step, _SCALAR)) == 2
        assert counting.collectives(graph_of(lambda x: x + x, _SCALAR)) == 0

    def test_the_hosts_part_is_found(self):
        def step(x):
            tf.cond(x > 0, lambda: tf.print(x), tf.no_op)
            return tf.py_function(lambda x: x, [x], tf.float32)

        found = counting.host_operations(graph_of(step, _SCALAR))
        assert found == ["EagerPyFunc", "PrintV2"]
        assert counting.host_operations(graph_of(tf.sin, _SCALAR)) == []

    @pytest.mark.skipif(
        not Path("/proc/self/status").exists(), reason="Linux tells this in /proc"
    )
    def test_memory(self):
        before = counting.resident_bytes()
        counting.reset_peak()
        reserved = np.ones(30_000_000, np.uint8)
        assert counting.resident_bytes() > before + 25_000_000
        del reserved
        assert counting.peak_bytes() > before + 25_000_000
