"""Test that the benchmark measures what it says. No test depends on a measured time."""

import collections
import gc
import json
import re
import signal

import numpy as np
import pytest
import tensorflow as tf

from tests import counting
from tests.processes import ROOT
from tools.benchmarks import __main__ as command
from tools.benchmarks import one_process, plan, report

SETTING = plan.Setting("function", "default", "keras3", "tiny")


@pytest.fixture
def run_benchmark(monkeypatch, tmp_path):
    """A function that runs the benchmark and returns {candidate: figures}."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    usual = ("--modes", "function", "--rounds", "1", "--out", str(tmp_path))

    def run(*arguments):
        assert command.main([*usual, *arguments]) == 0
        result = json.loads((tmp_path / "benchmark.json").read_text())
        assert result["failures"] == []
        return {row["candidate"]: row for row in result["figures"]}

    return run


class TestTheTool:
    @pytest.mark.slow
    def test_writes_figures_table_and_plots(self, run_benchmark, tmp_path, capsys):
        rows = run_benchmark(
            "--workloads", "tiny", "--families", "keras3", "--rounds", "3"
        )
        printed = capsys.readouterr().out
        version = re.escape(tf.__version__)
        assert re.search(rf"^tensorflow(-cpu)? {version}, keras ", printed)
        assert tuple(rows) == plan.CANDIDATES
        for name, row in rows.items():
            assert len(row["seconds"]) == 3 and row["ms"] > 0
            assert row["traces"] == 1 and row["collectives"] == 0
            more = row.get("operations_per_gradient", 0)  # the lower limit has none
            assert (more > 0) == (name in (plan.OWN, plan.OURS))
            assert re.search(rf"^\| +{name} \| .*\d", printed, re.MULTILINE)
        plots = [path.name for path in tmp_path.glob("*.png")]
        assert plots == ["added-default-function.png"]

    @pytest.mark.slow
    @pytest.mark.multiworker
    def test_measures_several_replicas(self, run_benchmark):
        chosen = ("--workloads", "tiny", "--families", "legacy")
        rows = run_benchmark(*chosen, "--strategies", "mirrored2")
        assert {rows[name]["collectives"] for name in STEPS} == {2}

    @pytest.mark.slow
    def test_sees_a_dense_temporary_in_the_peak_memory(self, run_benchmark):
        rows = run_benchmark(
            "--workloads", "embedding", "--families", "keras3", "--memory"
        )
        # A dense temporary takes at least a byte for each of 64 million values.
        assert rows[plan.OWN]["added_peak_mb"] > 60
        assert rows[plan.OURS]["added_peak_mb"] < 20

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--modes", "lazy"], "'lazy': use eager, function, xla"),
            (["--workloads", "0x5"], "'0x5': use tiny,"),
            (["--workloads", "tiny,huge"], "'huge': use tiny,"),
            (["--rounds", "0"], "must be at least 1"),
            (["--draw", "benchmark.json"], "--draw needs --out"),
        ],
    )
    def test_refuses_what_it_does_not_know(self, arguments, message, capsys):
        with pytest.raises(SystemExit):
            command.main(arguments)
        assert message in capsys.readouterr().err

    def test_a_process_that_takes_too_long_is_a_failure(
        self, run_benchmark, monkeypatch, capsys, tmp_path
    ):
        monkeypatch.setattr(command, "_SECONDS", 0.1)
        with pytest.raises(AssertionError):
            run_benchmark("--workloads", "tiny", "--families", "keras3")
        said = capsys.readouterr().err
        assert said.startswith("function, default, keras3, tiny failed:")
        assert "still running after 0.1 s" in said
        result = json.loads((tmp_path / "benchmark.json").read_text())
        assert [f.strip() for f in result["failures"]] == [said.strip()]
        assert result["figures"] == []


def test_workloads_have_the_shapes_of_the_networks():
    # The code of the papers prints these numbers of trainable parameters.
    resnet, bert = plan.workload("resnet50"), plan.workload("bert")
    assert (len(resnet.shapes), resnet.values) == (161, 25_557_032)
    assert (len(bert.shapes), bert.values) == (199, 109_482_240)
    assert plan.workload("embedding").values == 64 * 64  # the rows of one step
    assert plan.workload("100x256").values == 25_600


@pytest.mark.parametrize(
    "mode", [pytest.param("eager", marks=pytest.mark.slow), "function"]
)
@pytest.mark.parametrize(
    "name", ["tiny", pytest.param("model", marks=pytest.mark.slow), "sparse"]
)
@pytest.mark.parametrize("family", plan.FAMILIES)
def test_candidates_take_the_same_step(family, mode, name, monkeypatch):
    """Each candidate changes the variables as the bare optimizer does."""
    sparse = plan.Workload("", [(8, 2), (4, 3)], rows=2)
    monkeypatch.setitem(plan.WORKLOADS, "sparse", sparse)
    trains = plan.workload(name).trains
    if not trains:  # unscaled gradients are so small that usual steps would round to 0
        monkeypatch.setattr(one_process, "_LEARNING_RATE", 100.0)
    steps = one_process.Steps(plan.Setting(mode, "default", family, name))
    start = [v.numpy() for v in steps.variables]
    moved = {}
    for candidate in STEPS:
        for variable, value in zip(steps.variables, start):
            variable.assign(value)
        steps.step(candidate)
        moved[candidate] = [v.numpy() - a for v, a in zip(steps.variables, start)]
    bare = moved.pop(plan.BARE)
    assert all(np.abs(change).max() > 0 for change in bare)
    factor = 1.0 if trains else 2.0**-15  # only training steps scale the loss
    close = {"rtol": 1e-3, "atol": 3e-8}  # values of about 0.1 have this rounding error
    for changes in moved.values():
        for change, expected in zip(changes, bare, strict=True):
            np.testing.assert_allclose(change, expected * factor, **close)


def test_each_round_rotates_the_order_and_collects_no_garbage():
    calls = []
    steps = {n: lambda n=n: calls.append((n, gc.isenabled())) for n in "abc"}
    times = one_process.in_turns(steps, 4, 2)
    assert "".join(name for name, _ in calls) == "aabbccbbccaaccaabbaabbcc"
    assert not any(collecting for _, collecting in calls) and gc.isenabled()
    assert {name: len(times[name]) for name in times} == {"a": 4, "b": 4, "c": 4}


def test_all_chosen_combinations_are_measured_except_replicas_with_xla():
    chosen = "--modes function,xla --strategies all --families keras3,new"
    options = command._options([*chosen.split(), "--workloads", "tiny,model"])
    assert command.settings(options) == [
        (mode, strategy, family, workload)
        for mode in ("function", "xla")
        # TensorFlow compiles no steps of several logical replicas.
        for strategy in ("default", "mirrored2")[: 1 if mode == "xla" else 2]
        for family in ("keras3", "new")
        for workload in ("tiny", "model")
    ]


STEPS = plan.CANDIDATES[1:]  # the first candidate is the lower limit, which is no step


def figures(bare, own, ours, setting=SETTING, **measured):
    """Return the figures of three candidates that took these seconds in each round."""
    columns = {"seconds": (bare, own, ours), **measured}
    rows = (dict(zip(columns, row)) for row in zip(*columns.values(), strict=True))
    return report.figures(setting, dict(zip(STEPS, rows)))


class TestFigures:
    def test_compare_within_a_round(self):
        # In the second round the machine is slower, but the difference is the same.
        quartiles = report.added([0.003, 0.013, 0.003], [0.001, 0.011, 0.002])
        assert quartiles == pytest.approx([1.5, 2.0, 2.0])
        assert report.added([0.003], [0.001]) == [pytest.approx(2.0)] * 3

    def test_are_ratios_of_added_time_and_differences(self):
        bare, own, ours = figures(
            *([0.010] * 4, [0.014] * 4, [0.012] * 4),
            operations=(10, 30, 22),
            peak_bytes=(5_000_000, 6_000_000, 7_500_000),
        )
        assert bare["ms"] == pytest.approx(10) and bare["added_ms"] == 0
        assert own["ratio_to_own"] == 1
        assert ours["added_ms"] == pytest.approx(2) and ours["added_peak_mb"] == 2.5
        assert ours["ratio_to_own"] == pytest.approx(0.5)
        assert ours["operations_per_gradient"] == 3  # four gradients

    def test_of_the_lower_limit_are_its_whole_time(self):
        measured = {name: {"seconds": [0.010] * 4} for name in plan.CANDIDATES}
        measured[plan.OWN] = {"seconds": [0.014] * 4}
        limit, *_ = report.figures(SETTING, measured)
        assert limit["added_ms"] == pytest.approx(10)
        assert limit["ratio_to_own"] == pytest.approx(2.5)

    def test_have_no_ratio_to_a_difference_within_the_noise(self):
        noisy = [0.0101, 0.0120, 0.0080, 0.0101]
        assert "ratio_to_own" not in figures([0.010] * 4, noisy, [0.012] * 4)[2]

    def test_are_shown_in_a_table_without_empty_columns(self):
        table = report.table(figures([0.010] * 4, [0.011] * 4, [0.0125] * 4))
        where = "function · default · keras3"
        assert f"tiny MLP (4 tensors, 2,762 values) · {where}" in table
        assert table.endswith("|    tf_lso | 12.50 |    2.500 | 0.000 |  2.50 |")
        assert "traces" not in table and "/ own" in table


def test_a_plot_shows_every_figure(tmp_path, monkeypatch):
    """Each workload has a panel, and small and negative bars are labeled with numbers.

    The plot leaves out candidates of earlier versions of the tool.
    """
    rows = []
    for family in ("keras3", "legacy"):
        for workload in ("tiny", "10x4096"):
            setting = SETTING._replace(family=family, workload=workload)
            rows += figures([0.010], [0.022], [0.0095], setting)
            rows[-1]["added_quartiles"] = [-1, 13]
            rows.append(rows[-1] | {"candidate": "floor"})
    drawn = []
    save = "matplotlib.figure.Figure.savefig"
    monkeypatch.setattr(save, lambda figure, *path, **_: drawn.append((figure, *path)))
    report.draw(rows, tmp_path)
    ((figure, path),) = drawn
    assert path == tmp_path / "added-default-function.png"
    titles = [panel.get_title() for panel in figure.axes]
    assert titles == ["tiny MLP", "4096 values each"]
    for panel in figure.axes:
        assert [text.get_text() for text in panel.texts] == ["12", "-0.5"] * 2
        heights = [bar.get_height() for bar in panel.patches]
        assert heights == pytest.approx([12, -0.5] * 2)
        assert len({bar.get_x() for bar in panel.patches}) == 4  # none hides another
    (legend,) = figure.legends
    labels = [text.get_text() for text in legend.texts]
    assert labels == ["Keras 3", "tf_keras", "tf_lso"]


PAGES = ROOT / "compat_docs" / "explanation"
RECORD = PAGES / "performance-record.json"


def test_the_plots_of_the_record_are_those_of_the_page(tmp_path):
    command.main(["--draw", str(RECORD), "--out", str(tmp_path)])
    drawn = {path.name for path in tmp_path.iterdir()}
    page = (PAGES / "performance.md").read_text(encoding="utf-8")
    shown = re.findall(r"added-[\w-]+\.png", page)
    assert drawn == {*shown, "added-mirrored2-function.png"}


NAMES_IN_TABLES = {
    "ResNet-50": "resnet50",
    "BERT-base": "bert",
    "tiny": "tiny",
    "small model": "model",
    "embedding": "embedding",
    "400 \N{MULTIPLICATION SIGN} 256": "small400",
}


def cells_of_tables():
    """Yield the setting and the text of each cell in the tables of the record's page.

    The first four tables below "Today's core" have a row for each workload, and a column for
    each family.
    """
    page = (PAGES / "performance-record.md").read_text(encoding="utf-8")
    section = page.split("\n### Today's core\n")[1].split("\n### ")[0]
    tables = re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE)[:4]
    modes_and_strategies = [
        ("function", "default"),
        ("eager", "default"),
        ("xla", "default"),
        ("function", "mirrored2"),
    ]
    for (mode, strategy), table in zip(modes_and_strategies, tables, strict=True):
        rows = [
            [cell.strip() for cell in line.split("|")[1:-1]]
            for line in table.splitlines()
        ]
        heading, _, *lines = rows
        for workload, *cells in lines:
            for family, cell in zip(heading[1:], cells, strict=True):
                name = NAMES_IN_TABLES[workload]
                yield plan.Setting(mode, strategy, family.strip("`"), name), cell


def test_the_tables_show_the_record():
    measured = collections.defaultdict(dict)
    for row in json.loads(RECORD.read_text())["figures"]:
        setting = tuple(row[name] for name in plan.Setting._fields)
        measured[setting][row["candidate"]] = {"seconds": row["seconds"]}
    for setting, cell in cells_of_tables():
        _, _, own, ours = report.figures(setting, measured.pop(tuple(setting)))
        numbers = [own["added_ms"], ours["added_ms"]]
        if ours.get("ratio_to_own", 0) > 0:  # the tables leave out negative ratios
            numbers.append(ours["ratio_to_own"])
        texts = re.findall(r"-?[\d.]+", cell)
        for text, number in zip(texts, numbers, strict=True):
            decimals = len(text.partition(".")[2])
            assert text == f"{number:.{decimals}f}", (setting, cell)
    assert measured == {}  # each setting of the record has a cell


def graph_of(function):
    """Return the graph of a function of a scalar."""
    scalar = tf.TensorSpec([], tf.float32)
    return tf.function(function).get_concrete_function(scalar).graph


class TestCounting:
    def test_a_function_counts_for_each_call_a_branch_and_a_loop_once(self):
        inner = tf.function(lambda x: tf.sin(x))

        def step(x):
            (x,) = tf.while_loop(lambda x: x < 9, lambda x: (tf.exp(x),), [x])
            return tf.cond(x > 0, lambda: inner(inner(x)), lambda: tf.cos(tf.sin(x)))

        counted = counting.operations(graph_of(step))
        assert (counted["Sin"], counted["Cos"], counted["Exp"]) == (3, 1, 1)

    def test_collectives_are_found_in_branches_too(self):
        def reduce(x):
            keys = {"group_size": 2, "group_key": 1, "instance_key": 1}
            keys |= {"merge_op": "Add", "final_op": "Id", "ordering_token": []}
            return tf.raw_ops.CollectiveReduceV2(input=x, **keys)

        def step(x):
            return tf.cond(x > 0, lambda: reduce(x), lambda: x) + reduce(x)

        assert counting.collectives(graph_of(step)) == 2
        assert counting.collectives(graph_of(lambda x: x + x)) == 0

    def test_host_operations_are_found(self):
        def step(x):
            tf.cond(x > 0, lambda: tf.print(x), tf.no_op)
            return tf.py_function(lambda x: x, [x], tf.float32)

        found = counting.host_operations(graph_of(step))
        assert found == ["EagerPyFunc", "PrintV2"]
        assert counting.host_operations(graph_of(tf.sin)) == []
