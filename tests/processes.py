"""Run programs in separate processes: one program alone, or several TensorFlow workers.

If a worker dies, the other workers may wait for it forever. A worker that hangs in a collective
does not react to SIGTERM. So `run_workers` kills all workers that do not end.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

# The seconds after which a process counts as hanging. Even a slow machine must stay far below
# this limit. The limit is below the `timeout` of pyproject.toml, which ends the test process.
HANGS_AFTER = 600

# Variables for processes whose error output is read. TensorFlow prints little with them and
# does not look for GPUs.
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}


def environment(**variables):
    """Return the environment of this process with the given variables added."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **QUIET, **variables}


def start(arguments, cwd=None, stdout=subprocess.PIPE, **variables):
    """Run Python to its end. Return a `subprocess.CompletedProcess` with str outputs.

    `preloaded.run` is faster for a program that imports TensorFlow first.
    """
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=HANGS_AFTER,
    )


def run(program, by=start, **variables):
    """Run a Python program. Return the printed lines, or fail with the error output.

    `by` is the function that runs the program: `start`, or the faster `preloaded.run`.
    """
    done = by(["-c", textwrap.dedent(program)], **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


class WorkerResult(NamedTuple):
    """How one worker ended."""

    returncode: int  # -9 if the worker had to be killed
    output: str  # the standard output and errors of the worker


def run_workers(argv, count, timeout, variables=None, grace=60.0, cwd=None):
    """Run a command once for each worker of a cluster, all at the same time.

    Args:
      argv: list of str, the command of all workers.
      count: the number of workers. Each worker gets its own `TF_CONFIG`.
      timeout: seconds after which all running workers are killed, with their children.
      variables: dict of environment variables.
      grace: seconds after which all running workers are killed if one worker has failed.
      cwd: the folder in which the workers run.

    Returns:
      A list of `WorkerResult`.
    """
    addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
    workers = []
    with contextlib.ExitStack() as stack:
        logs = [stack.enter_context(tempfile.TemporaryFile()) for _ in addresses]
        stack.callback(kill, workers)  # also if a worker cannot start, and on Ctrl-C
        for index, log in enumerate(logs):
            environment_of_worker = {
                **os.environ,
                "PYTHONPATH": str(ROOT),
                **(variables or {}),
                "TF_CONFIG": tf_config(addresses, index),
            }
            worker = subprocess.Popen(
                argv,
                cwd=cwd,
                env=environment_of_worker,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            workers.append(worker)
        deadline = time.monotonic() + timeout
        has_failed = False
        # Poll every worker each time, since one may fail while an earlier one still runs.
        while None in [w.poll() for w in workers] and time.monotonic() < deadline:
            if not has_failed and any(w.returncode for w in workers):
                has_failed = True
                deadline = min(deadline, time.monotonic() + grace)
            time.sleep(0.05)
        kill(workers)
        return [
            _result(worker, log, timeout)
            for worker, log in zip(workers, logs, strict=True)
        ]


def _result(worker, log, timeout):
    log.seek(0)
    text = log.read().decode("utf-8", "replace")
    if worker.returncode == -signal.SIGKILL:
        text += f"\n[killed: still running after {timeout} s]\n"
    return WorkerResult(worker.returncode, text)


def kill(workers):
    """Kill the workers that still run, with their children."""
    for worker in workers:
        if worker.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()


def assert_succeeded(results):
    """Fail with the output of all workers, unless every worker exited with 0."""
    if any(result.returncode for result in results):
        raise AssertionError(
            "\n".join(
                f"--- worker {index}: exit code {result.returncode}\n{result.output}"
                for index, result in enumerate(results)
            )
        )


def tf_config(addresses, index):
    """Return the `TF_CONFIG` of worker `index` in a cluster that has only workers."""
    task = {"type": "worker", "index": index}
    return json.dumps({"cluster": {"worker": list(addresses)}, "task": task})


def free_ports(count):
    """Return `count` different ports of 127.0.0.1 on which no process listens now."""
    with contextlib.ExitStack() as stack:
        # All sockets stay open until the last port is found, so that no port is found twice.
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for free in sockets:
            free.bind(("127.0.0.1", 0))
        return [free.getsockname()[1] for free in sockets]


def hiding(*packages):
    """Return the first lines of a program in which these packages cannot be imported."""
    return textwrap.dedent(f"""
        import importlib.abc
        import sys

        class Hidden(importlib.abc.MetaPathFinder):
            '''Finds what the other finders find, but none of the packages.'''

            finders = list(sys.meta_path)

            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in {packages!r}:
                    return None
                specs = (f.find_spec(name, path, target) for f in self.finders)
                return next((spec for spec in specs if spec is not None), None)

            def find_distributions(self, *context):
                for finder in self.finders:
                    if hasattr(finder, "find_distributions"):
                        yield from finder.find_distributions(*context)

        sys.meta_path[:] = [Hidden()]
        """)
