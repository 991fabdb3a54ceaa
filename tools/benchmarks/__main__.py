"""`tools/benchmark`: its arguments, and the run of its jobs."""

import argparse
import functools
import json
import os
import pathlib
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile

from tests import devices
from tests.processes import run_workers
from tf_lso import progress
from tools.benchmarks import plan, report, workloads
from tools.gpus import machine

_NO_XLA = "TensorFlow does not compile steps of several logical CPU replicas"
_ROOT = pathlib.Path(__file__).parents[2]
_LINES = 15  # of the output of a failed process

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
  tools/benchmark --workloads 10x256,100x256 --imports --out figures
"""

# What is timed, one after the other, in one process.
_IMPORTS = {
    "import tensorflow and keras": "import tensorflow, keras; "
    "tensorflow.keras, keras.optimizers.SGD",  # both are loaded at first use
    "import tf_lso after that": "import tf_lso",
    "first use of LossScaleOptimizer after that": "tf_lso.LossScaleOptimizer",
}
_TIME_THEM = """
import sys, time
for statement in sys.argv[1:]:
    start = time.perf_counter()
    exec(statement)
    print(time.perf_counter() - start)
"""
# Replicas are logical CPU devices, so that every machine measures the same thing;
# GPUs only for tools/test --gpu.
_ENVIRONMENT = {**devices.environment(), "TF_CPP_MIN_LOG_LEVEL": "3"}
# Give back what is freed at once; otherwise the peak depends on what the allocator
# keeps. Too slow for timing.
_FOR_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TRIM_THRESHOLD_": "0",
}


def parser():
    """The parser of the command line."""
    raw = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser(
        "tools/benchmark", None, _DESCRIPTION, _EPILOG, formatter_class=raw
    )
    for option, known, default in (
        ("--workloads", workloads.WORKLOADS, "all"),
        ("--modes", plan.MODES, "all"),
        ("--strategies", plan.STRATEGIES, "default"),
        ("--families", plan.FAMILIES, "all"),
        ("--candidates", plan.CANDIDATES, "all"),
    ):
        kind = functools.partial(_names, known)
        text = f"{', '.join(known)}, or all; default: {default}"
        made.add_argument(
            option, metavar="NAMES", type=kind, default=default, help=text
        )
    for option, text in (
        ("--memory", "also the peak memory, in a process for each candidate"),
        ("--imports", "also what `import tf_lso` takes"),
        ("--quick", "3 rounds of `tiny`: to see that it works"),
    ):
        made.add_argument(option, action="store_true", help=text)
    for option, kind, default, text in (
        ("--rounds", _positive, 15, "how often each candidate is timed; default: 15"),
        ("--timeout", _positive, 600, "seconds that a process has; default: 600"),
        ("--out", pathlib.Path, None, "folder for benchmark.json and the plots (PNG)"),
    ):
        made.add_argument(option, type=kind, default=default, help=text)
    return made


def _names(known, text):
    names = list(known) if text == "all" else text.split(",")
    for name in names:
        try:
            if known is workloads.WORKLOADS:
                workloads.get(name)
            elif name not in known:
                raise ValueError(f"{name!r}: use {', '.join(known)}")
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error
    return names


def _positive(text):
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be at least 1")
    return int(text)


def main(arguments=None):
    """Run the tool; return the exit code."""
    options = parser().parse_args(arguments)
    # So that what ends this process, a time limit for instance, ends its children too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    if options.quick:
        options.rounds = min(options.rounds, 3)
        if options.workloads == list(workloads.WORKLOADS):
            options.workloads = ["tiny"]
    imports = _import_seconds() if options.imports else {}
    result = {"environment": _environment(), "imports": imports, "failures": []}
    records = []
    for job in progress.bar(plan.jobs(options), "tools/benchmark", "process"):
        found, failure = run(job, options.timeout)
        records += found
        if failure:
            result["failures"].append(failure)
            print(failure, file=sys.stderr)
        result["figures"] = report.figures(records)
        if options.out:  # so that what is there stays if the run is ended
            options.out.mkdir(parents=True, exist_ok=True)
            file = options.out / "benchmark.json"
            file.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if options.out:
        from tools.benchmarks import plots

        for plot in plots.draw(result["figures"], options.out):
            print(f"plot {plot}", file=sys.stderr)
    print(report.text(result))
    return 1 if result["failures"] else 0


def run(job, timeout):
    """Do a `plan.Job` in fresh processes, which have `timeout` seconds.

    Returns its records and what failed, or "".
    """
    if job.mode == "xla" and job.strategy != "default":
        return plan.skipped(job, _NO_XLA), ""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "records.json"
        program = [sys.executable, "-m", "tools.benchmarks.one_process"]
        results = run_workers(
            [*program, json.dumps(job), str(file)],
            plan.STRATEGIES[job.strategy][0],
            timeout,
            _ENVIRONMENT | (_FOR_MEMORY if job.what == "memory" else {}),
            cwd=_ROOT,
        )
        failed = [result for result in results if result.returncode]
        if not failed:
            return json.loads(file.read_text()), ""
    last = failed[0].output.strip().splitlines()[-_LINES:] or ["it said nothing"]
    failure = "\n".join([f"{', '.join(job[:5])} failed:", *last])
    return plan.skipped(job, last[-1]), failure


def _environment():
    """Versions and machine, for the JSON and above the tables."""
    git = ["git", "-C", str(_ROOT), "describe", "--always", "--dirty"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False)
    info = pathlib.Path("/proc/cpuinfo")
    found = re.search("model name.*: (.*)", info.read_text() if info.exists() else "")
    return machine.versions() | {
        "tf_lso": commit.stdout.strip(),
        "python": platform.python_version(),
        "processor": found[1] if found else platform.machine(),
        "cores": os.cpu_count(),
    }


def _import_seconds():
    """Medians of the seconds that imports take, of five fresh processes."""
    command = [sys.executable, "-c", _TIME_THEM, *_IMPORTS.values()]
    options = {"env": {**os.environ, **_ENVIRONMENT}, "cwd": _ROOT, "timeout": 300}
    runs = [subprocess.check_output(command, **options).split() for _ in range(5)]
    medians = [statistics.median(map(float, times)) for times in zip(*runs)]
    return dict(zip(_IMPORTS, medians))


if __name__ == "__main__":
    sys.exit(main())
