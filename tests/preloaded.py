"""Run Python programs in processes in which TensorFlow is already imported.

The import of TensorFlow takes longer than most of the programs. So a server imports TensorFlow
once, and forks for each program. The server has not started any device or thread, so a program
finds TensorFlow in the same state as after its own import. Programs that do not import
TensorFlow first must not run in this way.
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

# On other systems, a process that has imported libraries with threads cannot fork.
CAN_FORK = sys.platform == "linux"

_lock = threading.Lock()


def run(arguments, cwd=None, **variables):
    """Run a program as `processes.start` does, in a process that has TensorFlow.

    Args:
      arguments: list of str, the arguments of Python. The first is `-m`, `-c` or a path.
      cwd: the folder in which the program runs, by default the present one.
      **variables: environment variables of the program.

    Returns:
      A `subprocess.CompletedProcess` with str outputs.
    """
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
        stdout, stderr, code_file = files
        while not code_file.exists():
            if server.poll() is not None:
                raise RuntimeError("The server of tests/preloaded.py has ended.")
            time.sleep(0.005)
        return subprocess.CompletedProcess(
            arguments,
            int(code_file.read_text()),
            stdout.read_text("utf-8", "replace"),
            stderr.read_text("utf-8", "replace"),
        )


@functools.cache
def _server(path, legacy_keras):
    """Return the server process for these values of environment variables.

    The imports read these variables, so other values need another server.
    """
    variables = {"PYTHONPATH": path, "TF_USE_LEGACY_KERAS": legacy_keras}
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.preloaded"],
        cwd=processes.ROOT,
        env=processes.environment(**variables),
        stdin=subprocess.PIPE,
        text=True,
    )
    atexit.register(server.wait)
    atexit.register(server.stdin.close)  # runs first, and ends the server
    return server


def serve():
    """Fork for each request. Return the request in the new process, and None at the end."""
    import tensorflow as tf

    devices.end_replicas_at_once(tf)
    gc.freeze()  # so that garbage collection in a program skips TensorFlow
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the children leave no zombies
    # On Ctrl-C the test process closes the input, and the loop below ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        if not os.fork():
            return json.loads(line)
    return None


def _wait_in_parent(code_file):
    """Fork. The child returns, and the parent writes the child's exit code into a file."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        written = Path(f"{code_file}.new")
        # The folder is gone if the test process has ended.
        with contextlib.suppress(FileNotFoundError):
            written.write_text(str(os.waitstatus_to_exitcode(status)))
            written.rename(code_file)
        os._exit(0)


def run_request(arguments, cwd, environment, files):
    """Run a program in this process as if the process had just begun."""
    stdout, stderr, code_file = files
    _wait_in_parent(code_file)
    signal.alarm(processes.HANGS_AFTER)  # the signal kills a process that hangs
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
    sys.stdin = open(0)  # the old `sys.stdin` may have read further requests
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
