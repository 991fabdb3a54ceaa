"""Runs a command for at most so many minutes: bounded.py MINUTES COMMAND...

Then it ends the command with what that has started, and exits with 124, as coreutils'
`timeout` does, which macOS lacks. The timeouts of pytest bound a single test; pytest-xdist
waits for ever for a process that is stuck between two tests. It also
ends the command when it receives SIGINT, as on Ctrl-C, or SIGTERM; then its exit code is
128 plus the number of the signal.
"""

import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import sys

# How long an interrupted command may take to end, so that pytest can say what failed.
GRACE_SECONDS = 30

SIGNALS = (signal.SIGINT, signal.SIGTERM)
PR_SET_CHILD_SUBREAPER = 36  # of linux/prctl.h


def main(minutes, *command):
    """Run the command; return its exit code, or 124 if it took too long."""
    adopt_orphans()
    for number in SIGNALS:
        signal.signal(number, stop)
    process = None
    try:
        # In a session of its own the command has a process group that can be signalled.
        process = subprocess.Popen(command, start_new_session=True)
        return process.wait(float(minutes) * 60)
    except subprocess.TimeoutExpired:
        text = (
            "Run what hangs alone; on a slow machine set TF_LSO_TEST_MINUTES to more."
        )
        print(f"\nIt still ran after {minutes} minutes.", text, file=sys.stderr)
        return 124
    finally:
        if process is not None:
            interrupt(process)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        kill_descendants(process)


def stop(number, frame):
    """Leave `main` through its `finally`, which ends the command."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # GNU `timeout` sends it twice
    raise SystemExit(128 + number)


def adopt_orphans():
    """On Linux, become the parent of each descendant whose parent ends.

    So `kill_descendants` also finds processes with a session of their own, such as the
    workers of distributed tests. On other systems only their tests end these.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def interrupt(process):
    """Interrupt the process group of a command that still runs, and wait for a while.

    A second Ctrl-C ends the waiting.
    """
    if process.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired, SystemExit):
            os.killpg(process.pid, signal.SIGINT)
            process.wait(GRACE_SECONDS)


def kill_descendants(process):
    """Kill the rest of the command's process group, and all adopted processes."""
    if process is not None:
        # PermissionError: on macOS, where all of the group are zombies.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    children = pathlib.Path(f"/proc/self/task/{os.getpid()}/children")
    while children.exists():
        # Each round may orphan, and so bring here, the children of those it kills.
        for pid in children.read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:  # there are none
            return


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
