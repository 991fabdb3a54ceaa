"""Run the example as a user does, in one process and on a cluster of two workers."""

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="the example draws a picture")

from matplotlib.image import imread

import tf_lso
from tests.processes import (
    HANGS_AFTER,
    QUIET,
    ROOT,
    assert_succeeded,
    run_workers,
    start,
)
from tests.test_callbacks import scalars
from tf_lso.examples.history import power_of_two

_ARGUMENTS = ["-m", "tf_lso", "run", "tf_lso/examples/digits.py"]


def _table(output: str) -> dict[str, str]:
    """Return {name: value} of the rows that the example prints at its end."""
    return dict(re.findall(r"^(\S.*?\S) {2,}(\S+)$", output, re.MULTILINE))


def _assert_learned_with_skipped_steps(output: str) -> None:
    table = _table(output)
    assert float(table["accuracy on held-out digits"]) >= 0.95, output
    assert int(table["steps"]) > int(table["skipped steps"]) >= 1, output
    assert table["replicas"] == "2", output


def _assert_is_png(path: Path) -> None:
    height, width, _ = imread(path, "png").shape
    assert width >= 600 and height >= 600
    assert path.stat().st_size > 10_000


def _assert_scalars_of_each_step(log_dir: Path, output: str) -> None:
    """Assert that one process logged each step, with the same values as in the table."""
    table, logged = _table(output), scalars(log_dir)
    assert len(list(log_dir.rglob("*tfevents*"))) == 1
    steps = int(table["steps"])
    for tag in ("loss", "loss_scale", "skipped_steps"):
        assert list(logged[tag]) == list(range(1, steps + 1))
    assert logged["skipped_steps"][steps] == int(table["skipped steps"])
    assert power_of_two(logged["loss_scale"][steps]) == table["final loss scale"]


@pytest.mark.slow
def test_the_example_learns_digits_and_writes_a_plot(tmp_path):
    plot = tmp_path / "new folder" / "digits.png"
    arguments = ["--output", plot, "--log-dir", tmp_path / "logs"]
    done = start([*_ARGUMENTS, *arguments], ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    _assert_learned_with_skipped_steps(done.stdout)
    assert "epoch  1/" in done.stdout
    _assert_is_png(plot)
    _assert_scalars_of_each_step(tmp_path / "logs", done.stdout)


@pytest.mark.slow
@pytest.mark.multiworker
def test_the_same_program_trains_on_a_cluster(tmp_path):
    plot = tmp_path / "digits.png"
    command = [sys.executable, *_ARGUMENTS, "--output", str(plot)]
    results = run_workers(
        [*command, "--log-dir", str(tmp_path / "logs")],
        count=2,
        timeout=HANGS_AFTER,
        variables=QUIET,
        cwd=ROOT,
    )
    assert_succeeded(results)
    chief, other = (result.output for result in results)
    _assert_learned_with_skipped_steps(chief)
    _assert_is_png(plot)
    _assert_scalars_of_each_step(tmp_path / "logs", chief)
    # The chief prints a report. The other worker prints one line, and has the same weights.
    accuracy = _table(chief)["accuracy on held-out digits"]
    assert f"worker 1 is done: accuracy {accuracy}" in other
    assert "final loss scale" not in other
    assert "epoch" not in other


def test_a_wrong_value_of_an_option_is_refused():
    with tf_lso.install():
        from tf_lso.examples import digits
    with pytest.raises(SystemExit) as refusal:
        digits.main(["--epochs", "0"])
    assert refusal.value.code == 2
