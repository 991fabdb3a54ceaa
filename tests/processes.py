"""Programs in processes of their own: one alone, or several TensorFlow workers.

A worker that waits for a peer that has died waits forever, and a collective that
hangs does not react to SIGTERM. So several workers go through `run_workers`, which always
comes back, and always with what the workers printed.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

_POLL_SECONDS = 0.05

# After this a process counts as hanging. A slow machine must not come near it; below
# the `timeout` of setup.cfg, which ends the whole test process.
HANGS_AFTER = 600

# The PYTHONPATH of processes that need nothing but TensorFlow and tf_lso. Keras imports
# scikit-learn and matplotlib where they are installed, which takes as long as the rest of
# TensorFlow: `lean` hides them.
ROOT = Path(__file__).parents[1]
LEAN = os.pathsep.join([str(ROOT / "tests" / "lean"), str(ROOT)])

# Where workers that follow TensorFlow's import meet at their end, and how many they are.
ENDED = "TF_LSO_TEST_ENDED"

# For processes whose errors are read: TensorFlow says little, and looks for no GPU.
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}


def start(arguments, cwd=None, stdout=subprocess.PIPE, **variables):
    """Run Python with `arguments` and variables to its end; return what it did.

    `preloaded.run` does it sooner, for a program that imports TensorFlow first.
    """
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": LEAN, **QUIET, **variables},
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=HANGS_AFTER,
    )


def run(program, by=start, **variables):
    """Run Python on `program`; return the lines it printed, or fail with its errors."""
    done = by(["-c", textwrap.dedent(program)], **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def hiding(*packages):
    """Return the start of a program in which those packages cannot be imported."""
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


def begin(argv, cwd, stdout, stderr, **variables):
    """Begin a command that leads a process group and writes to two files."""
    return subprocess.Popen(
        argv,
        cwd=cwd,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )


Workers = list[subprocess.Popen[bytes]]


class WorkerResult(NamedTuple):
    """How one worker ended."""

    returncode: int  # -9 where it had to be killed
    output: str  # all that it wrote, and why it was killed


def run_workers(
    argv: Sequence[str],
    count: int,
    timeout: float,
    env: Mapping[str, str] | None = None,
    *,
    grace: float = 10.0,
    cwd: str | os.PathLike[str] | None = None,
    after_tensorflow: bool = False,
    own: Mapping[str, str] | None = None,
) -> list[WorkerResult]:
    """Runs `argv` in `count` processes that find each other through `TF_CONFIG`.

    Worker 0 is the chief. That a worker was killed raises nothing here: see
    `assert_succeeded`.

    Args:
      argv: The command, for example `[sys.executable, "-c", program]`.
      count: How many workers to start.
      timeout: Seconds after which the workers that still run are killed.
      env: Variables to set on top of this process's environment and of `LEAN`.
      grace: Seconds until the others, which mostly wait for a failed one, are killed.
      cwd: The directory to run in; the current one by default.
      after_tensorflow: Whether the command is Python's, and may follow the import of
        TensorFlow, which is sooner: see `preloaded.py`.
      own: Variables like `env` that TensorFlow's import does not read.
    """
    addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        logs = [directory / f"worker-{index}.txt" for index in range(count)]
        ended = directory / "ended"
        ended.mkdir()
        workers: Workers = []
        # Also ends them when starting a later one fails, and on Ctrl-C.
        stack.callback(_kill, workers)
        for index, log in enumerate(logs):
            # A file, not a pipe: nobody has to read it for the worker to go on.
            stream = stack.enter_context(log.open("wb"))
            of_worker = {"TF_CONFIG": tf_config(addresses, index), **(own or {})}
            variables = {"PYTHONPATH": LEAN, **(env or {})}
            if after_tensorflow:
                from tests import preloaded  # which imports this module

                of_worker[ENDED] = json.dumps([str(ended), count])
                worker = preloaded.start(
                    argv[1:], cwd, stream, stream, of_worker, **variables
                )
            else:
                worker = begin(argv, cwd, stream, stream, **variables, **of_worker)
            workers.append(worker)
        reason = _wait(workers, timeout, grace)
        killed = _kill(workers)
        return [
            WorkerResult(
                worker.returncode,
                log.read_text(encoding="utf-8", errors="replace")
                + (f"\n[killed: {reason}]\n" if worker in killed else ""),
            )
            for worker, log in zip(workers, logs, strict=True)
        ]


def assert_succeeded(results: Sequence[WorkerResult]) -> None:
    """Fails with the output of all workers unless every one of them exited with 0."""
    told = [
        f"--- worker {index}: exit code {result.returncode}\n{result.output}"
        for index, result in enumerate(results)
    ]
    if any(result.returncode != 0 for result in results):
        raise AssertionError("\n".join(told))


def tf_config(addresses: Sequence[str], index: int) -> str:
    """Returns the `TF_CONFIG` of worker `index` of a cluster of workers only."""
    task = {"type": "worker", "index": index}
    return json.dumps({"cluster": {"worker": list(addresses)}, "task": task})


def free_ports(count: int) -> list[int]:
    """Returns `count` different ports of 127.0.0.1 that nobody listens on now."""
    with ExitStack() as stack:
        # All are held until the last is found, so that none is given out twice.
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for free in sockets:
            free.bind(("127.0.0.1", 0))
        return [free.getsockname()[1] for free in sockets]


def _wait(workers: Workers, timeout: float, grace: float) -> str:
    """Waits for all workers; returns why it stopped waiting, empty if all ended."""
    deadline = time.monotonic() + timeout
    reason = f"still running after {timeout:g} s"
    failed = False
    while any(worker.poll() is None for worker in workers):
        if time.monotonic() >= deadline:
            return reason
        if not failed and any(worker.returncode for worker in workers):
            failed = True
            if time.monotonic() + grace < deadline:
                deadline = time.monotonic() + grace
                reason = f"still running {grace:g} s after another worker failed"
        time.sleep(_POLL_SECONDS)
    return ""


def _kill(workers: Workers) -> Workers:
    """Kills those that still run, with their own children; returns them."""
    running = [worker for worker in workers if worker.poll() is None]
    for worker in running:
        # Each worker leads a process group of its own, whose id is its pid.
        with suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
    for worker in running:
        worker.wait()
    return running
