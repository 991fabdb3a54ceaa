"""Run jobs, each in fresh processes of limited life, and gather their records."""

import json
import pathlib
import sys
import tempfile

from tests.processes import run_workers
from tools.benchmarks import choices, plan

_ROOT = pathlib.Path(__file__).parents[2]
_LINES = 15  # of the output of a failed process


def run(job, timeout):
    """Do a job; return its records and what is to be said of it, or an empty string.

    Args:
      job: the Job.
      timeout: seconds that its processes have for each workload.
    """
    count = choices.STRATEGIES[job.strategy].processes
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "records.json"
        program = [sys.executable, "-m", "tools.benchmarks.one_process"]
        results = run_workers(
            [*program, json.dumps(job._asdict()), str(file)],
            count,
            timeout * len(job.workloads),
            _environment(job),
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


def _environment(job):
    # Replicas are logical CPU devices, so that every machine measures the same thing.
    variables = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    if job.what == "memory":
        # Give back what is freed at once; otherwise the peak depends on what the
        # allocator keeps. Too slow for timing.
        variables |= {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}
        variables |= {"MALLOC_TRIM_THRESHOLD_": "0"}
    return variables
