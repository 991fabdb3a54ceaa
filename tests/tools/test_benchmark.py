"""The benchmark measures steps that do the same. No test depends on a measured time."""

import json

import numpy as np
import pytest

from tools.benchmarks import __main__ as command
from tools.benchmarks import one_process, workloads


@pytest.mark.slow
def test_it_writes_figures_a_table_and_a_plot(tmp_path, capsys):
    chosen = "--workloads tiny --modes function --families legacy --rounds 3"
    command.main([*chosen.split(), "--strategies", "mirrored2", "--out", str(tmp_path)])
    rows = json.loads((tmp_path / "benchmark.json").read_text())
    assert [row["candidate"] for row in rows] == list(workloads.CANDIDATES)
    assert all(len(row["seconds"]) == 3 for row in rows)
    assert "|    tf_lso |" in capsys.readouterr().out
    (plot,) = tmp_path.glob("*.png")
    assert plot.name == "added-mirrored2-function.png"


@pytest.mark.slow
@pytest.mark.parametrize("family", workloads.FAMILIES)
def test_each_candidate_changes_the_variables_as_the_bare_optimizer_does(family):
    steps = one_process.Steps(workloads.Setting("function", "default", family, "model"))
    start = [v.numpy() for v in steps.variables]
    moved = {}
    for candidate in workloads.CANDIDATES:
        for variable, value in zip(steps.variables, start):
            variable.assign(value)
        steps.step(candidate)
        moved[candidate] = [v.numpy() - a for v, a in zip(steps.variables, start)]
    bare = moved.pop(workloads.BARE)
    assert all(np.abs(change).max() > 0 for change in bare)
    for changes in moved.values():
        for change, expected in zip(changes, bare, strict=True):
            # Values of about 0.1 have this rounding error.
            np.testing.assert_allclose(change, expected, rtol=1e-3, atol=3e-8)
