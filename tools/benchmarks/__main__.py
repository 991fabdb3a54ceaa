"""The command `tools/benchmark`: read the arguments and run the measuring processes."""

import argparse
import functools
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from tests import devices
from tools.benchmarks import figures, workloads

_ROOT = pathlib.Path(__file__).parents[2]
_DESCRIPTION = """\
Measures the time that loss scaling adds to a training step. It compares tf_lso with the
LossScaleOptimizer of Keras 3 and of tf_keras (own). The candidates run in turn in one
process. The added time of a candidate is its time minus that of a step without loss
scaling (bare) in the same round. Separate several names by commas.
compat_docs/explanation/performance-record.md explains the names and the tables. Example:
tools/benchmark --workloads resnet50,bert --modes function --out figures
"""
# Replicas are logical CPU devices, so that every machine measures the same thing.
_ENVIRONMENT = {**devices.environment(), "TF_CPP_MIN_LOG_LEVEL": "3"}


def _options(arguments):
    parser = argparse.ArgumentParser("tools/benchmark", description=_DESCRIPTION)
    add = parser.add_argument
    for option, known, default in (
        ("--workloads", workloads.WORKLOADS, "all"),
        ("--modes", workloads.MODES, "all"),
        ("--strategies", workloads.STRATEGIES, "default"),
        ("--families", workloads.FAMILIES, "all"),
    ):
        text = f"{', '.join(known)}, or all; default: {default}"
        names = functools.partial(_names, known)
        add(option, metavar="NAMES", type=names, default=default, help=text)
    text = "number of timed rounds, at least 1; default: 15"
    add("--rounds", type=int, default=15, help=text)
    add("--out", type=pathlib.Path, help="folder for benchmark.json and plots (PNG)")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: must be at least 1")
    return options


def _names(known, text):
    names = list(known) if text == "all" else text.split(",")
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name!r}: use {', '.join(known)}")
    return names


def settings(options):
    """Return the list of settings to measure."""
    chosen = options.modes, options.strategies, options.families, options.workloads
    found = [workloads.Setting(*names) for names in itertools.product(*chosen)]
    # TensorFlow cannot compile steps of several replicas on logical CPUs.
    return [s for s in found if s.mode != "xla" or s.strategy == "default"]


def measure(setting, rounds):
    """Measure a setting in a fresh process. Return {candidate: dict of measurements}."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "measured.json")
        command = [sys.executable, "-m", "tools.benchmarks.one_process"]
        command += [json.dumps([*setting, rounds]), str(file)]
        subprocess.run(command, check=True, cwd=_ROOT, env=os.environ | _ENVIRONMENT)
        return json.loads(file.read_text())


def main(arguments=None):
    """Run the tool."""
    options = _options(arguments)
    rows = []
    for setting in settings(options):
        of_setting = figures.figures(setting, measure(setting, options.rounds))
        rows += of_setting
        print(f"\n{figures.table(of_setting)}", flush=True)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        text = json.dumps(rows, indent=1) + "\n"
        (options.out / "benchmark.json").write_text(text, encoding="utf-8")
        figures.draw(rows, options.out)


if __name__ == "__main__":
    main()
