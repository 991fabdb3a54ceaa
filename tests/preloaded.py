"""Runs Python programs in processes that begin with TensorFlow imported.

The import takes longer than most of the programs. So a server imports TensorFlow once, and
forks for each program. TensorFlow has started no device or thread by then: a program finds
it as it is after its own import. Only for programs that import TensorFlow first.
"""

import atexit
import contextlib
import functools
import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
from pathlib import Path

from tests import devices, processes

# Elsewhere a process that has imported what has threads cannot fork.
CAN_FORK = sys.platform == "linux"

_lock = threading.Lock()


def run(arguments, cwd=None, **variables):
    """Run Python as `processes.start` does: `-m module`, `-c program` or a path."""
    if not CAN_FORK:
        return processes.start(arguments, cwd, **variables)
    environment = processes.environment(**variables)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("stdout", "stderr", "code")]
        request = {
            "arguments": [str(argument) for argument in arguments],
            "cwd": str(cwd or os.getcwd()),
            "environment": environment,
            "files": [str(file) for file in files],
        }
        with _lock:
            server = _server(
                environment["PYTHONPATH"], environment.get("TF_USE_LEGACY_KERAS", "")
            )
            print(json.dumps(request), file=server.stdin, flush=True)
        stdout, stderr, code = files
        while not code.exists():
            if server.poll() is not None:
                raise RuntimeError("The server of tests/preloaded.py has ended.")
            time.sleep(0.005)
        return subprocess.CompletedProcess(
            arguments,
            int(code.read_text()),
            *(file.read_text("utf-8", "replace") for file in (stdout, stderr)),
        )


@functools.cache
def _server(path, legacy_keras):
    """Return the server for these values of the variables that the imports read."""
    variables = {"PYTHONPATH": path, "TF_USE_LEGACY_KERAS": legacy_keras}
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.preloaded"],
        cwd=processes.ROOT,
        env=processes.environment(**variables),
        stdin=subprocess.PIPE,
        text=True,
    )
    atexit.register(server.wait)
    atexit.register(server.stdin.close)  # first, and the server ends
    return server


def serve():
    """Fork for each request; return the request in the process that is to run it."""
    import tensorflow as tf

    devices.end_replicas_at_once(tf)
    gc.freeze()  # so that a program does not look for garbage in TensorFlow
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the children leave no zombies
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C the input ends
    for line in sys.stdin:
        if not os.fork():
            return json.loads(line)
    return None


def _wait_in_parent(code):
    """Fork. The child returns, and the parent writes the child's exit code into a file."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        written = Path(f"{code}.new")
        # The folder is gone if the test process has ended.
        with contextlib.suppress(FileNotFoundError):
            written.write_text(str(os.waitstatus_to_exitcode(status)))
            written.rename(code)
        os._exit(0)


def run_request(arguments, cwd, environment, files):
    """Run a program in this process as if it had just begun."""
    stdout, stderr, code = files
    _wait_in_parent(code)
    signal.alarm(processes.HANGS_AFTER)  # which kills it then
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for number, (path, mode) in enumerate(
        [(os.devnull, os.O_RDONLY), (stdout, flags), (stderr, flags)]
    ):
        opened = os.open(path, mode)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0)  # the other one may have read further requests
    first, *rest = arguments
    sys.argv[:] = arguments if first not in ("-m", "-c") else [first, *rest[1:]]
    sys.path[0] = cwd
    if first == "-m":
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), vars(main))
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(first))
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    _request = serve()
    if _request is not None:
        run_request(**_request)
