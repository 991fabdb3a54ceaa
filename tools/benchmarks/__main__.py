"""The command `tools/benchmark`: read the arguments and run the measuring processes."""

import argparse
import functools
import importlib.metadata
import itertools
import json
import os
import pathlib
import platform
import signal
import sys
import tempfile

from tests import devices
from tests.processes import assert_succeeded, run_workers
from tools.benchmarks import plan, report

_ROOT = pathlib.Path(__file__).parents[2]
_DESCRIPTION = """\
Measures the time that loss scaling adds to a training step. It compares tf_lso with the
LossScaleOptimizer of Keras 3 and of tf_keras (own). The candidates run in turn in one
process. The added time of a candidate is its time minus that of a step without loss
scaling (bare) in the same round. Separate several names by commas. A workload can also be
written as 100x256, which means 100 tensors of 256 values.
compat_docs/explanation/performance-record.md explains the names and the tables. Example:
tools/benchmark --workloads resnet50,bert --modes function --out figures
"""
_SECONDS = 600  # the most seconds that a process may run
# Replicas are logical CPU devices, so that every machine measures the same thing.
_ENVIRONMENT = {**devices.environment(), "TF_CPP_MIN_LOG_LEVEL": "3"}
# Make the allocator return freed memory at once. Otherwise the peak depends on the memory
# that the allocator keeps. These settings are too slow for measuring time.
_FOR_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}
_FOR_MEMORY["MALLOC_TRIM_THRESHOLD_"] = "0"


def _options(arguments):
    parser = argparse.ArgumentParser("tools/benchmark", description=_DESCRIPTION)
    add = parser.add_argument
    for option, known, default in (
        ("--workloads", plan.WORKLOADS, "all"),
        ("--modes", plan.MODES, "all"),
        ("--strategies", plan.STRATEGIES, "default"),
        ("--families", plan.FAMILIES, "all"),
    ):
        text = f"{', '.join(known)}, or all; default: {default}"
        names = functools.partial(_names, known)
        add(option, metavar="NAMES", type=names, default=default, help=text)
    text = "number of timed rounds, at least 1; default: 15"
    add("--rounds", type=int, default=15, help=text)
    add("--out", type=pathlib.Path, help="folder for benchmark.json and plots (PNG)")
    text = "also measure the peak memory of each candidate"
    add("--memory", action="store_true", help=text)
    text = "draw the plots of an earlier benchmark.json into --out and measure nothing"
    add("--draw", type=pathlib.Path, metavar="FILE", help=text)
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: must be at least 1")
    if options.draw and not options.out:
        parser.error("--draw needs --out")
    return options


def _names(known, text):
    names = list(known) if text == "all" else text.split(",")
    for name in names:
        is_workload = known is plan.WORKLOADS and plan.workload(name)
        if name not in known and not is_workload:
            raise argparse.ArgumentTypeError(f"{name!r}: use {', '.join(known)}")
    return names


def settings(options):
    """Return the list of settings to measure."""
    chosen = options.modes, options.strategies, options.families, options.workloads
    found = [plan.Setting(*names) for names in itertools.product(*chosen)]
    # TensorFlow cannot compile steps of several replicas on logical CPUs.
    return [s for s in found if s.mode != "xla" or s.strategy == "default"]


def measure(setting, rounds, memory=False):
    """Measure a setting in fresh processes. Return {candidate: dict of measurements}."""
    measured = {}
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "measured.json")
        # One process measures the time of all candidates. If `memory` is True, a process
        # for each candidate then measures its memory.
        for name in [None, *plan.CANDIDATES * memory]:
            command = [sys.executable, "-m", "tools.benchmarks.one_process"]
            command += [json.dumps([*setting, rounds, name]), str(file)]
            environment = _ENVIRONMENT | (_FOR_MEMORY if name else {})
            assert_succeeded(run_workers(command, 1, _SECONDS, environment, cwd=_ROOT))
            for candidate, found in json.loads(file.read_text()).items():
                measured.setdefault(candidate, {}).update(found)
    return measured


def main(arguments=None):
    """Run the tool and return its exit code."""
    options = _options(arguments)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
    if options.draw:
        result = json.loads(options.draw.read_text(encoding="utf-8"))
        report.draw(result["figures"], options.out)
        return 0
    import tqdm  # imported here, since `--help` does not need tqdm

    # A signal that ends this process, for instance from a time limit, also ends its children.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    # TensorFlow comes in one of several packages.
    packages = ("tensorflow", "tensorflow-cpu", "keras", "tf-keras")
    there = [(n, d) for n in packages for d in importlib.metadata.distributions(name=n)]
    versions = {name: distribution.version for name, distribution in there}
    versions |= {"python": platform.python_version(), "cores": os.cpu_count()}
    result = {"environment": versions, "failures": [], "figures": []}
    print(", ".join(f"{name} {version}" for name, version in versions.items()))
    for setting in tqdm.tqdm(settings(options), unit="setting", disable=None):
        try:
            measured = measure(setting, options.rounds, options.memory)
        except AssertionError as error:
            result["failures"].append(f"{', '.join(setting)} failed:\n{error}")
            print(result["failures"][-1], file=sys.stderr)
            continue
        rows = report.figures(setting, measured)
        result["figures"] += rows
        print(f"\n{report.table(rows)}", flush=True)
    if options.out:
        text = json.dumps(result, indent=1) + "\n"
        (options.out / "benchmark.json").write_text(text, encoding="utf-8")
        report.draw(result["figures"], options.out)
    return 1 if result["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
