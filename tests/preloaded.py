"""Python processes that have TensorFlow imported when they begin.

Its import takes some seconds of a processor. A server imports it once, and forks for
each command. It starts no device, so that each command finds TensorFlow as fresh as
after an import of its own: see `test_preloaded.py`.

Only for what may come after `import tensorflow`: a program whose first import is tf_lso
begins in a process of its own.
"""

import atexit
import contextlib
import functools
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types

from tests import devices, processes
from tests.processes import HANGS_AFTER, LEAN, QUIET, ROOT

# Elsewhere a process that has threads cannot fork, or no process can.
CAN_FORK = sys.platform == "linux"

_LONGEST = 2**17  # bytes of a request, as of an argument of a command


def run(arguments, cwd=None, own=(), **variables):
    """Run Python with `arguments`, `-m module`, `-c program` or a path first, to its end.

    Args:
      arguments: list of str.
      cwd: the folder to run in.
      own: dict of variables of the environment that TensorFlow's import does not read.
      **variables: of the environment, beside those of this process and `LEAN`. Each
        other set of them has a server of its own.

    Returns:
      A `subprocess.CompletedProcess` with texts.
    """
    with contextlib.ExitStack() as stack:
        text = {"mode": "w+", "encoding": "utf-8", "errors": "replace"}
        temporary = (tempfile.TemporaryFile(**text) for _ in range(2))
        files = [stack.enter_context(file) for file in temporary]
        process = start(arguments, cwd, *files, own, **variables)
        try:
            code = process.wait(HANGS_AFTER)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        for file in files:
            file.seek(0)
        return subprocess.CompletedProcess(
            arguments, code, *(file.read() for file in files)
        )


def start(arguments, cwd, stdout, stderr, own=(), **variables):
    """Begin what `run` runs, as the leader of a process group that writes to two files.

    Returns:
      A `subprocess.Popen`, or what has `pid`, `returncode`, `poll` and `wait` as it has.
    """
    environment = {**os.environ, "PYTHONPATH": LEAN, **QUIET, **variables}
    environment.pop("PYTEST_CURRENT_TEST", None)  # for each test another
    arguments, cwd = [str(argument) for argument in arguments], str(cwd or os.getcwd())
    if CAN_FORK:
        server = _server(tuple(sorted(environment.items())))
        return server.start([arguments, cwd, dict(own)], stdout, stderr)
    variables = environment | dict(own)
    return processes.begin(
        [sys.executable, *arguments], cwd, stdout, stderr, **variables
    )


@functools.cache
def _server(environment):
    return Server(dict(environment))


class Server:
    """A process that forks for each command."""

    def __init__(self, environment):
        self._lock = threading.Lock()
        self._requests, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.preloaded", str(theirs.fileno())],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        atexit.register(self._end)

    def start(self, request, *files):
        """Begin a command: its arguments, folder and own variables."""
        text = json.dumps(request).encode()
        state, theirs = socket.socketpair()
        with self._lock, theirs:
            numbers = [file.fileno() for file in (theirs, *files)]
            socket.send_fds(self._requests, [text], numbers)
        return Child(request[0], state)

    def _end(self):
        self._requests.close()  # after which it ends by itself
        self._process.wait()


class Child:
    """A command of a server, as a `subprocess.Popen`."""

    def __init__(self, arguments, state):
        self.args, self.returncode = arguments, None
        self._state, self._lines = state, state.makefile()
        self.pid = int(self._lines.readline())

    def poll(self):
        """The exit code, or None while it runs."""
        return self._after(0)

    def wait(self, timeout=None):
        """The exit code, as soon as there is one."""
        if self._after(timeout) is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def _after(self, timeout):
        if self.returncode is None and select.select([self._state], [], [], timeout)[0]:
            self.returncode = int(self._lines.readline())
            self._lines.close()
            self._state.close()
        return self.returncode


def main(requests):
    """Serve; the process of a command returns from here and runs it."""
    import tensorflow as tf

    devices.end_replicas_at_once(tf)
    gc.freeze()  # a child looks for garbage in what is its own alone
    while True:
        text, files, *_ = socket.recv_fds(requests, _LONGEST, 3)
        with contextlib.suppress(ChildProcessError):  # of those that wait
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not text:
            return None
        if not os.fork():
            requests.close()
            return _wait_for_a_child(*files) or (*json.loads(text), *files[1:])
        for number in files:
            os.close(number)


def _wait_for_a_child(state, *files):
    """Fork; the child returns, and this process tells who it is and how it ends."""
    child = os.fork()
    if not child:
        os.close(state)
        return
    os.setpgid(child, child)
    for number in files:
        os.close(number)
    os.write(state, f"{child}\n".encode())
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(state, f"{code}\n".encode())
    os._exit(0)


def begin(arguments, cwd, variables, stdout, stderr):
    """Make this process look like a new one; return how its command runs."""
    os.chdir(cwd)
    os.environ.update(variables)
    with open(os.devnull) as file:
        os.dup2(file.fileno(), 0)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    for number in {stdout, stderr}:
        os.close(number)
    first, *rest = arguments
    if first == "-m":
        name, *sys.argv[1:] = rest
        sys.path[0] = cwd
        return lambda: runpy.run_module(name, run_name="__main__", alter_sys=True)
    if first == "-c":
        program, *rest = rest
        sys.argv[:] = "-c", *rest
        sys.path[0] = cwd
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        return lambda: exec(compile(program, "<string>", "exec"), vars(main))
    sys.argv[:] = first, *rest
    sys.path[0] = os.path.dirname(os.path.abspath(first))
    return lambda: runpy.run_path(first, run_name="__main__")


def leave_after(command):
    """Run a command and end as Python does, but without taking TensorFlow apart.

    That takes longer than many a program. What the program and the packages have asked
    for at the exit is done.
    """
    code = 0
    try:
        command()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if code and code is not end.code:
            print(end.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    if processes.ENDED in os.environ:
        _meet_the_others(*json.loads(os.environ[processes.ENDED]), code)
    os._exit(code & 255)


def _meet_the_others(folder, workers, code):
    """Tell that this worker's program has ended; wait for the others' unless it failed.

    What it sent last may still be on its way, and another's collective fails where the
    sender is gone. Taking TensorFlow apart takes longer than that.
    """
    open(os.path.join(folder, str(os.getpid())), "w").close()
    while not code and len(os.listdir(folder)) < workers:
        time.sleep(0.01)


if __name__ == "__main__":
    request = main(socket.socket(fileno=int(sys.argv[1])))
    if request is not None:
        leave_after(begin(*request))
