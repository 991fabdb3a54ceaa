"""Run the example as a user does, in one process and on a cluster of two workers."""

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="the example draws a picture")

from matplotlib.figure import Figure
from matplotlib.image import imread

import tf_lso
from tests import preloaded
from tests.processes import (
    HANGS_AFTER,
    QUIET,
    ROOT,
    assert_succeeded,
    run_workers,
    start,
)
from tests.test_callbacks import scalars
from tf_lso.examples.history import History, plot, power_of_two
from tf_lso.migrate.reading_files import check

_ARGUMENTS = ["-m", "tf_lso", "run", "tf_lso/examples/digits.py"]


def _import_digits():
    """Import the example while the old names are installed, and return the module."""
    with tf_lso.install():
        from tf_lso.examples import digits
    return digits


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


@pytest.mark.parametrize("skipped", [[], [1], [0, 2]])
def test_the_plot_says_which_steps_were_skipped(skipped, tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: figures.append(self))
    verdicts = [step in skipped for step in range(4)]
    plot(History([1.0] * 4, [8.0] * 4, verdicts), tmp_path / "digits.png")
    legend = figures[0].axes[0].get_legend()
    if not skipped:
        assert legend is None or legend.get_texts() == []
    else:
        (label,) = [text.get_text() for text in legend.get_texts()]
        assert label == "skipped step: a gradient overflowed, no weight changed"
        assert legend.legend_handles[0].get_color() == "tab:red"


@pytest.mark.slow
def test_a_low_accuracy_is_a_failure(tmp_path):
    arguments = ["--epochs", "1", "--output", str(tmp_path / "digits.png")]
    done = preloaded.run([*_ARGUMENTS, *arguments], ROOT)
    assert done.returncode == 1, done.stderr
    assert "is too low, 0.95 was expected" in done.stderr
    assert float(_table(done.stdout)["accuracy on held-out digits"]) < 0.95


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


def test_the_example_is_a_program_of_2020():
    """The example uses old names. From tf_lso it imports only its helper module."""
    source = (ROOT / "tf_lso/examples/digits.py").read_text(encoding="utf-8")
    imported = re.findall(r"^(?:from|import) (tf_lso\S*)", source, re.MULTILINE)
    assert set(imported) == {"tf_lso.examples.history"}
    findings = check([ROOT / "tf_lso/examples"]).findings
    used = {finding.consequence.name for finding in findings}
    assert used >= {
        "tf.keras.mixed_precision.experimental",
        "tf.keras.mixed_precision.experimental.LossScaleOptimizer",
        "tf.keras.mixed_precision.experimental.Policy",
        "tf.mixed_precision.experimental.DynamicLossScale",
    }


@pytest.mark.slow
def test_the_help_names_all_options():
    done = preloaded.run([*_ARGUMENTS, "--help"], ROOT)
    assert done.returncode == 0
    words = "--epochs --initial-scale --growth-steps --output --log-dir TF_CONFIG"
    for word in words.split():
        assert word in done.stdout


@pytest.mark.parametrize(
    ("option", "value"),
    [("--epochs", "0"), ("--initial-scale", "inf"), ("--initial-scale", "-1")],
)
def test_a_wrong_value_of_an_option_is_refused(option, value):
    digits = _import_digits()
    with pytest.raises(SystemExit) as refusal:
        digits.main([option, value])
    assert refusal.value.code == 2


def test_a_missing_package_is_named(monkeypatch, capsys):
    digits = _import_digits()
    find = digits.importlib.util
    monkeypatch.setattr(find, "find_spec", lambda name: name != "sklearn" or None)
    with pytest.raises(SystemExit, match=r"needs sklearn.*tf-lso\[demo\]"):
        digits.main([])
