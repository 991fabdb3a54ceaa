"""Runs a command with a time limit: bounded.py MINUTES COMMAND...

After MINUTES the tool ends the command and all processes that the command started, and exits
with code 124. The `timeout` of coreutils does the same, but macOS does not have `timeout`. The
timeouts of pytest end only a single test, and pytest-xdist waits forever for a process that is
stuck between two tests. The tool also ends the command if the tool receives SIGINT (from
Ctrl-C) or SIGTERM. The exit code is then 128 plus the number of the signal.
"""

import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import sys

# An interrupted command has this time to end itself, so that pytest can report failures.
GRACE_SECONDS = 30

SIGNALS = (signal.SIGINT, signal.SIGTERM)
PR_SET_CHILD_SUBREAPER = 36  # from linux/prctl.h


def main(minutes, *command):
    """Run the command. Return its exit code, or 124 if the time limit ended it."""
    adopt_orphans()
    for number in SIGNALS:
        signal.signal(number, stop)
    process = None
    try:
        # With its own session the command has a process group, to which signals can be sent.
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
    """Handle a signal: leave `main` through its `finally` clause, which ends the command."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # GNU `timeout` sends SIGTERM twice
    raise SystemExit(128 + number)


def adopt_orphans():
    """On Linux, become the parent of each descendant whose parent ends.

    Thus `kill_descendants` also finds processes with their own session, such as the workers
    of distributed tests. On other systems only the tests themselves end these workers.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def interrupt(process):
    """Interrupt the process group of a running command, and wait for the command's end.

    The wait ends after `GRACE_SECONDS`, or at a second Ctrl-C.
    """
    if process.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired, SystemExit):
            os.killpg(process.pid, signal.SIGINT)
            process.wait(GRACE_SECONDS)


def kill_descendants(process):
    """Kill the rest of the command's process group, and all adopted processes."""
    if process is not None:
        # macOS raises PermissionError if all processes of the group are zombies.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    children = pathlib.Path(f"/proc/self/task/{os.getpid()}/children")
    while children.exists():
        # The children of a killed process become children of this process,
        # so repeat.
        for pid in children.read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:  # there are no children
            return


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
