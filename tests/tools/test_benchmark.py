"""The benchmark measures steps that do the same. No test depends on a measured time."""

import json

import numpy as np
import pytest

from tools.benchmarks import __main__ as command
from tools.benchmarks import figures, one_process, workloads


@pytest.mark.slow
def test_it_writes_figures_a_table_and_a_plot(tmp_path, capsys):
    chosen = "--workloads tiny --modes function --families legacy --rounds 3 --memory"
    command.main([*chosen.split(), "--strategies", "mirrored2", "--out", str(tmp_path)])
    rows = json.loads((tmp_path / "benchmark.json").read_text())
    assert [row["candidate"] for row in rows] == list(workloads.CANDIDATES)
    assert all(len(row["seconds"]) == 3 and row["peak_bytes"] for row in rows)
    assert "|    tf_lso |" in capsys.readouterr().out
    (plot,) = tmp_path.glob("*.png")
    assert plot.name == "added-mirrored2-function.png"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--modes", "lazy"], "'lazy': use eager, function, xla"),
        (["--workloads", "0x5"], "'0x5': use tiny,"),
        (["--rounds", "0"], "must be at least 1"),
        (["--draw", "benchmark.json"], "--draw needs --out"),
    ],
)
def test_it_refuses_what_it_does_not_know(arguments, message, capsys):
    with pytest.raises(SystemExit):
        command.main(arguments)
    assert message in capsys.readouterr().err


def test_the_figures_are_those_that_the_page_explains():
    setting = workloads.Setting("function", "default", "keras3", "tiny")
    # In the second round the machine is slower, but the differences are the same.
    seconds = {"bare": [0.010, 0.020], "own": [0.014, 0.024], "tf_lso": [0.012, 0.022]}
    measured = {name: {"seconds": value} for name, value in seconds.items()}
    _, own, ours = figures.figures(setting, measured)
    assert own["added_ms"] == pytest.approx(4)
    assert ours["added_ms"] == pytest.approx(2)
    assert ours["ratio_to_own"] == pytest.approx(0.5)


def test_workloads_have_the_shapes_of_the_networks():
    # The code of the papers prints these numbers of trainable parameters.
    def size(name):
        return sum(np.prod(shape) for shape in workloads.workload(name).shapes)

    assert (size("resnet50"), size("bert")) == (25_557_032, 109_482_240)


@pytest.mark.parametrize(
    "name",
    [
        "tiny",
        pytest.param("model", marks=pytest.mark.slow),
        pytest.param("sparse", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("family", workloads.FAMILIES)
def test_candidates_take_the_same_step(family, name, monkeypatch):
    """Each candidate changes the variables as the bare optimizer does."""
    sparse = workloads.Workload("", [(8, 2), (4, 3)], rows=2)
    monkeypatch.setitem(workloads.WORKLOADS, "sparse", sparse)
    trains = workloads.workload(name).trains
    if not trains:  # unscaled gradients are so small that usual steps would round to 0
        monkeypatch.setattr(one_process, "_LEARNING_RATE", 100.0)
    steps = one_process.Steps(workloads.Setting("function", "default", family, name))
    start = [v.numpy() for v in steps.variables]
    moved = {}
    for candidate in workloads.CANDIDATES[1:]:  # the first one is no step
        for variable, value in zip(steps.variables, start):
            variable.assign(value)
        steps.step(candidate)
        moved[candidate] = [v.numpy() - a for v, a in zip(steps.variables, start)]
    bare = moved.pop(workloads.BARE)
    assert all(np.abs(change).max() > 0 for change in bare)
    factor = 1.0 if trains else 2.0**-15  # only training steps scale the loss
    close = {"rtol": 1e-3, "atol": 3e-8}  # values of about 0.1 have this rounding error
    for changes in moved.values():
        for change, expected in zip(changes, bare, strict=True):
            np.testing.assert_allclose(change, expected * factor, **close)
