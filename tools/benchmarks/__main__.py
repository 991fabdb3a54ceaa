"""`tools/benchmark`: its arguments, and the run of its jobs."""

import argparse
import functools
import importlib.metadata
import itertools
import json
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import tempfile

from tests import devices
from tests.processes import assert_succeeded, run_workers
from tools.benchmarks import plan, report

_ROOT = pathlib.Path(__file__).parents[2]
_DESCRIPTION = """\
Measures what loss scaling adds to a training step: tf_lso beside the LossScaleOptimizer
of Keras 3 and of tf_keras. The candidates take turns in one process. What is compared is
the time above that of a step without loss scaling (bare) in the same round. Several names
are given with commas. A workload may also be 100x256: 100 tensors of 256 values. The page
compat_docs/explanation/performance-record.md says what names and tables mean.
"""
_EPILOG = """\
examples:
  tools/benchmark --quick
  tools/benchmark --workloads resnet50 --families keras3 --modes function
  tools/benchmark --workloads resnet50,bert --strategies default,mirrored2 --memory
  tools/benchmark --workloads 10x256,100x256 --out figures
"""
_SECONDS = 600  # that a process has
_MEMORY_STEPS = 3

# Replicas are logical CPU devices, so that every machine measures the same thing.
_ENVIRONMENT = {**devices.environment(), "TF_CPP_MIN_LOG_LEVEL": "3"}
# Give back what is freed at once; otherwise the peak depends on what the allocator
# keeps. Too slow for timing.
_FOR_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}
_FOR_MEMORY["MALLOC_TRIM_THRESHOLD_"] = "0"


def _options(arguments):
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "tools/benchmark", None, _DESCRIPTION, _EPILOG, formatter_class=raw
    )
    add = parser.add_argument
    for option, known, default in (
        ("--workloads", plan.WORKLOADS, "all"),
        ("--modes", plan.MODES, "all"),
        ("--strategies", plan.STRATEGIES, "default"),
        ("--families", plan.FAMILIES, "all"),
        ("--candidates", plan.CANDIDATES, "all"),
    ):
        text = f"{', '.join(known)}, or all; default: {default}"
        names = functools.partial(_names, known)
        add(option, metavar="NAMES", type=names, default=default, help=text)
    text = "how often each candidate is timed; default: 15"
    add("--rounds", type=int, default=15, help=text)
    text = "folder for benchmark.json and the plots (PNG)"
    add("--out", type=pathlib.Path, help=text)
    text = "also the peak memory, in a process for each candidate"
    add("--memory", action="store_true", help=text)
    text = "3 rounds of `tiny`: to see that it works"
    add("--quick", action="store_true", help=text)
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: must be at least 1")
    if options.quick:
        options.rounds = min(options.rounds, 3)
        if options.workloads == list(plan.WORKLOADS):
            options.workloads = ["tiny"]
    return options


def _names(known, text):
    names = list(known) if text == "all" else text.split(",")
    for name in names:
        sized = known is plan.WORKLOADS and plan.SIZED.fullmatch(name)
        if name not in known and not sized:
            raise argparse.ArgumentTypeError(f"{name!r}: use {', '.join(known)}")
    return names


def jobs(options):
    """The jobs of a run, a list."""
    found = []
    for where in itertools.product(
        options.modes, options.strategies, options.families, options.workloads
    ):
        mode, strategy, family, _ = where
        if mode == "xla" and strategy != "default":
            why = "TensorFlow compiles no steps of several logical CPU replicas"
            print(f"left out: {', '.join(where)}; {why}", file=sys.stderr)
            continue
        names = plan.candidates_of(family, options.candidates)
        found.append(plan.Job("time", *where, names, options.rounds))
        if options.memory:
            found += [plan.Job("memory", *where, [n], _MEMORY_STEPS) for n in names]
    return found


def run(job):
    """Do a `plan.Job` in fresh processes; return its records.

    Raises:
      AssertionError: if a process fails, with what it printed.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "records.json")
        command = [sys.executable, "-m", "tools.benchmarks.one_process"]
        command += [json.dumps(job), str(file)]
        environment = _ENVIRONMENT | (_FOR_MEMORY if job.what == "memory" else {})
        count, _ = plan.STRATEGIES[job.strategy]
        assert_succeeded(run_workers(command, count, _SECONDS, environment, cwd=_ROOT))
        return json.loads(file.read_text())


def main(arguments=None):
    """Run the tool; return the exit code."""
    options = _options(arguments)
    import tqdm  # which the help does not need

    # So that what ends this process, a time limit for instance, ends its children too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    result = {"environment": _environment(), "failures": [], "figures": []}
    records = []
    for job in tqdm.tqdm(jobs(options), unit="process", disable=None):
        try:
            records += run(job)
        except AssertionError as error:
            failure = f"{', '.join(job[:5])} failed:\n{error}"
            result["failures"].append(failure)
            print(failure, file=sys.stderr)
        result["figures"] = report.figures(records)
        if options.out:  # so that what is there stays if the run is ended
            options.out.mkdir(parents=True, exist_ok=True)
            text = json.dumps(result, indent=1) + "\n"
            (options.out / "benchmark.json").write_text(text, encoding="utf-8")
    if options.out:
        report.draw(result["figures"], options.out)
    print(", ".join(f"{k} {v}" for k, v in result["environment"].items()))
    for part in report.tables(result["figures"]):
        print(f"\n{part}")
    return 1 if result["failures"] else 0


def _environment():
    """Versions and machine, for the JSON and above the tables."""
    frameworks = ("tensorflow", "keras", "tf-keras")
    found = {name: importlib.metadata.version(name) for name in frameworks}
    git = ["git", "-C", str(_ROOT), "describe", "--always", "--dirty"]
    commit = subprocess.run(git, capture_output=True, text=True)
    found |= {"tf_lso": commit.stdout.strip(), "python": platform.python_version()}
    info = pathlib.Path("/proc/cpuinfo")
    model = re.search("model name.*: (.*)", info.read_text() if info.exists() else "")
    processor = model[1] if model else platform.machine()
    return found | {"processor": processor, "cores": os.cpu_count()}


if __name__ == "__main__":
    sys.exit(main())
