"""Python processes that have TensorFlow imported when they begin.

Its import takes some seconds of a processor. A server imports it once, and forks for
each command. It starts no device, so that each command finds TensorFlow as fresh as
after an import of its own: see `test_preloaded.py`.

Only for what may come after `import tensorflow`: a program whose first import is tf_lso
begins in a process of its own.
"""

import atexit
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
import types

from tests.processes import HANGS_AFTER, QUIET

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Elsewhere a process that has threads cannot fork, or no process can.
CAN_FORK = sys.platform == "linux"


def run(arguments, cwd=None, **variables):
    """Run Python with `arguments`, `-m module`, `-c program` or a path first, to its end.

    Args:
      arguments: list of str.
      cwd: the folder to run in.
      **variables: of the environment, beside those of this process.

    Returns:
      A `subprocess.CompletedProcess` with texts.
    """
    environment = {**os.environ, "PYTHONPATH": ROOT, **QUIET, **variables}
    environment.pop("PYTEST_CURRENT_TEST", None)  # for each test another
    cwd = str(cwd or os.getcwd())
    if CAN_FORK:
        server = _server(tuple(sorted(environment.items())))
        return server.run([str(argument) for argument in arguments], cwd)
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER,
        check=False,
    )


@functools.cache
def _server(environment):
    return Server(dict(environment))


class Server:
    """A process that forks for each command."""

    def __init__(self, environment):
        self._environment = environment
        self._lock = threading.Lock()
        self._process = None
        atexit.register(self._end)

    def run(self, arguments, cwd):
        """Run one command; other threads wait until it has ended."""
        with self._lock, tempfile.TemporaryDirectory() as folder:
            if self._process is None:
                self._start()
            request = {"arguments": arguments, "cwd": cwd, "folder": folder}
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            # The end of the server ends the wait too.
            hangs = threading.Timer(HANGS_AFTER, self._kill, [self._process])
            hangs.start()
            answer = self._process.stdout.readline()
            hangs.cancel()
            if not answer:
                self._end()
                raise subprocess.TimeoutExpired(arguments, HANGS_AFTER)
            texts = []
            for name in ("stdout", "stderr"):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8", errors="replace") as file:
                    texts.append(file.read())
            return subprocess.CompletedProcess(arguments, int(answer), *texts)

    def _start(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.preloaded"],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # so that its children can be ended with it
        )

    @staticmethod
    def _kill(process):
        os.killpg(process.pid, signal.SIGKILL)

    def _end(self):
        if self._process is not None:
            self._process.stdin.close()  # after which it ends by itself
            self._process.wait()
            self._process = None


def main():
    """Serve; a child returns from here and runs its command."""
    import tensorflow as tf

    del tf
    gc.freeze()  # a child looks for garbage in what is its own alone
    for line in sys.stdin:
        child = os.fork()
        if not child:
            return json.loads(line)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(code, flush=True)
    return None


def begin(request):
    """Make this process look like a new one; return how its command runs."""
    os.chdir(request["cwd"])
    with open(os.devnull) as file:
        os.dup2(file.fileno(), 0)
    for number, name in ((1, "stdout"), (2, "stderr")):
        with open(os.path.join(request["folder"], name), "wb") as file:
            os.dup2(file.fileno(), number)
    first, *rest = request["arguments"]
    if first == "-m":
        name, *sys.argv[1:] = rest
        sys.path[0] = request["cwd"]
        return lambda: runpy.run_module(name, run_name="__main__", alter_sys=True)
    if first == "-c":
        program, *rest = rest
        sys.argv[:] = "-c", *rest
        sys.path[0] = request["cwd"]
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
    os._exit(code & 255)


if __name__ == "__main__":
    request = main()
    if request is not None:
        leave_after(begin(request))
