"""`tools/benchmark`: its arguments, and the run of its jobs."""

import argparse
import importlib.metadata
import json
import os
import pathlib
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from tests.processes import run_workers
from tools.benchmarks import plan, report, workloads

_ROOT = pathlib.Path(__file__).parents[2]
_LINES = 15  # of the output of a failed process

_DESCRIPTION = """\
Measures what loss scaling adds to a training step: tf_lso, the LossScaleOptimizer of
each optimizer family itself, and the floor, side by side. Every combination of mode,
strategy and family runs in a fresh process. In it all candidates take turns, round by
round, so that what else the machine does hits them alike; what is compared is the time
above that of the bare optimizer in the same round.

Several names are given with commas, "all" for all of them. Besides those that are
listed, a workload may be 100x256: 100 tensors of 256 values, or any such size.
"""
_EPILOG = """\
examples:
  tools/benchmark --quick
  tools/benchmark --workloads resnet50 --families keras3 --modes function
  tools/benchmark --workloads resnet50,bert --strategies default,mirrored2 --memory
  tools/benchmark --sweep --imports --memory --out figures

compat_docs/performance.md tells what the workloads and candidates are, and how to read
the columns.
"""

_IMPORTS = """
import time
start = time.perf_counter()
import tensorflow, keras
tensorflow.keras, keras.optimizers.SGD  # both are loaded at first use
between = time.perf_counter()
import tf_lso
imported = time.perf_counter()
tf_lso.LossScaleOptimizer
print(between - start, imported - between, time.perf_counter() - between)
"""
_PARTS = (
    "import tensorflow and keras",
    "import tf_lso after that",
    "import tf_lso and first use of LossScaleOptimizer after that",
)
# Replicas are logical CPU devices, so that every machine measures the same thing.
_ENVIRONMENT = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
# Give back what is freed at once; otherwise the peak depends on what the allocator
# keeps. Too slow for timing.
_FOR_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TRIM_THRESHOLD_": "0",
}


def parser():
    """The parser of the command line."""
    made = argparse.ArgumentParser(
        "tools/benchmark",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for option, known, default in (
        ("workloads", workloads.WORKLOADS, "all"),
        ("modes", plan.MODES, "all"),
        ("strategies", plan.STRATEGIES, "default"),
        ("families", plan.FAMILIES, "all"),
        ("candidates", plan.CANDIDATES, "all"),
    ):
        made.add_argument(
            f"--{option}",
            metavar="NAMES",
            type=_names(known, option == "workloads"),
            default=default,
            help=f"{', '.join(known)}; default: {default}",
        )
    for option, text in (
        ("sweep", "also sizes in between, for smoother plots"),
        ("memory", "also the peak memory, in a process for each candidate"),
        ("imports", "also what `import tf_lso` takes"),
        ("quick", "3 rounds of `tiny`: to see that it works"),
        ("markdown", "print the tables in Markdown"),
    ):
        made.add_argument(f"--{option}", action="store_true", help=text)
    made.add_argument(
        "--rounds", type=int, default=15, help="how often each is timed; default: 15"
    )
    made.add_argument(
        "--timeout",
        type=int,
        default=600,
        metavar="SECONDS",
        help="that a process has for each workload; default: 600. XLA alone compiles "
        "large workloads for minutes",
    )
    made.add_argument(
        "--out", type=pathlib.Path, help="where to write benchmark.json and plots (PNG)"
    )
    made.add_argument(
        "--read",
        type=pathlib.Path,
        metavar="FILE",
        help="print, and with --out draw, an earlier benchmark.json",
    )
    return made


def _names(known, sized):
    """What turns `a,b` or `all` into a list of known names."""

    def parse(text):
        names = list(known) if text == "all" else text.split(",")
        for name in names:
            try:
                if not (name in known or (sized and workloads.get(name))):
                    raise ValueError(f"{name!r}: use {', '.join(known)}")
            except ValueError as error:
                raise argparse.ArgumentTypeError(str(error)) from error
        return names

    return parse


def main(arguments=None):
    """Run the tool; return the exit code."""
    options = parser().parse_args(arguments)
    if options.rounds < 1 or options.timeout < 1:
        parser().error("--rounds and --timeout must be at least 1")
    if options.read:
        result = json.loads(options.read.read_text(encoding="utf-8"))
    else:
        result = _measured(options)
    if options.out:
        _write(options.out, result)
        from tools.benchmarks import plots

        for plot in plots.draw(result, options.out):
            print(f"plot {plot}", file=sys.stderr)
    print(report.text(result, options.markdown))
    return 1 if result["failures"] else 0


def _measured(options):
    from tf_lso import progress

    # So that what ends this process, a time limit for instance, ends its children too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    chosen, rounds = options.workloads, options.rounds
    if options.quick:
        chosen = ["tiny"] if chosen == list(workloads.WORKLOADS) else chosen
        rounds = min(rounds, 3)
    chosen = list(dict.fromkeys(chosen + workloads.SWEEP * options.sweep))
    jobs, records = plan.jobs(
        modes=options.modes,
        strategies=options.strategies,
        families=options.families,
        workloads=chosen,
        candidates=options.candidates,
        rounds=rounds,
        memory=options.memory,
    )
    result = {
        "environment": _environment(),
        "workloads": {name: _size(workloads.get(name)) for name in chosen},
        "imports": _import_seconds() if options.imports else {},
        "failures": [],
        "figures": report.figures(records),
    }
    for job in progress.bar(jobs, "tools/benchmark", "process"):
        found, failure = run(job, options.timeout)
        records += found
        if failure:
            result["failures"].append(failure)
            print(failure, file=sys.stderr)
        result["figures"] = report.figures(records)
        if options.out:
            _write(options.out, result)  # what is there stays if the run is ended
    return result


def run(job, timeout):
    """Do a job in fresh processes; return its records and what failed, or "".

    Args:
      job: the Job.
      timeout: seconds that its processes have for each workload.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "records.json"
        program = [sys.executable, "-m", "tools.benchmarks.one_process"]
        results = run_workers(
            [*program, json.dumps(job._asdict()), str(file)],
            plan.STRATEGIES[job.strategy][1],
            timeout * len(job.workloads),
            _ENVIRONMENT | (_FOR_MEMORY if job.what == "memory" else {}),
            cwd=_ROOT,
        )
        records = json.loads(file.read_text()) if file.exists() else []
    failed = [result for result in results if result.returncode]
    if not failed:
        return records, ""
    done = {record["workload"] for record in records}
    left = [name for name in job.workloads if name not in done]
    last = failed[0].output.strip().splitlines()[-_LINES:]
    reason = last[-1] if last else f"exit code {failed[0].returncode}"
    records += plan.skipped(job._replace(workloads=left), reason)
    return records, "\n".join([f"{job.title} failed:", *last])


def _size(workload):
    return {
        "title": workload.title,
        "tensors": len(workload.shapes),
        "values": workload.values,
        "bytes": 4 * workload.values,
    }


def _environment():
    """Versions and machine, for the JSON."""
    made = {"python": platform.python_version(), "system": platform.platform()}
    for name in ("tensorflow", "tensorflow-cpu", "keras", "tf-keras", "tf-lso"):
        try:
            made[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    command = ["git", "-C", str(_ROOT), "describe", "--always", "--dirty"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False)
    info = pathlib.Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(": ")[1] for line in lines if line.startswith("model name")]
    return made | {
        "commit": commit.stdout.strip(),
        "processor": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "date": time.strftime("%Y-%m-%d %H:%M"),
    }


def _import_seconds(count=5):
    """Medians of the seconds that imports take, each in a fresh process."""
    runs = []
    for _ in range(count):
        done = subprocess.run(
            [sys.executable, "-c", _IMPORTS],
            env={**os.environ, **_ENVIRONMENT},
            cwd=_ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        runs.append([float(value) for value in done.stdout.split()])
    return dict(zip(_PARTS, map(statistics.median, zip(*runs)), strict=True))


def _write(folder, result):
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=1) + "\n"
    (folder / "benchmark.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
