"""Runs a command for at most so many minutes: bounded.py MINUTES COMMAND...

Then it ends the command with what that has started, and exits with 124, as coreutils'
`timeout` does, which macOS lacks. The timeouts of pytest bound a single test; pytest-xdist
waits for ever for a process that is stuck between two tests.
"""

import contextlib
import os
import signal
import subprocess
import sys

# How long an interrupted command may take to end, so that pytest can say what failed.
GRACE_SECONDS = 30


def main(minutes, *command):
    """Run the command; return its exit code, or 124."""
    process = subprocess.Popen(command, start_new_session=True)
    try:
        return process.wait(float(minutes) * 60)
    except KeyboardInterrupt:  # of which a session of its own hears nothing
        end(process)
        return 128 + signal.SIGINT
    except subprocess.TimeoutExpired:
        text = (
            "Run what hangs alone; on a slow machine set TF_LSO_TEST_MINUTES to more."
        )
        print(f"\nIt still ran after {minutes} minutes.", text, file=sys.stderr)
        end(process)
        return 124


def end(process):
    """Interrupt a process and its group; kill what is left after a while."""
    for number in (signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            process.wait(GRACE_SECONDS)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
