"""Test `tools/bounded.py`, which ends a run of tools/test that takes too long."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.processes import HANGS_AFTER, ROOT, start
from tools import bounded

# Runs `bounded` with a tenth of the time that interrupted processes have to end.
IMPATIENT = f"""
import sys
from tools import bounded
bounded.GRACE_SECONDS = {bounded.GRACE_SECONDS / 10}
sys.exit(bounded.main(*sys.argv[1:]))
"""

PATIENCE_SECONDS = 10

# A child process. It starts a grandchild, which runs the program in the first argument, prints
# both process IDs, and waits until it is interrupted.
FAMILY = """
import os, subprocess, sys, time
grandchild = subprocess.Popen(
    [sys.executable, "-c", sys.argv[1]], start_new_session=sys.argv[2] == "session"
)
print(os.getpid(), grandchild.pid, flush=True)
time.sleep(10_000)
"""
SLEEPS = "import time; time.sleep(10_000)"
IGNORES_INTERRUPTS = (
    f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); {SLEEPS}"
)
in_its_own_session = pytest.param(
    "session",
    marks=pytest.mark.skipif(
        sys.platform != "linux", reason="only Linux gives orphans to bounded.py"
    ),
)


def run(minutes, program):
    return start(["-c", IMPATIENT, minutes, sys.executable, "-c", program])


def still_running(pids):
    """Wait until the processes have ended. Return those that still exist after some time."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(exists(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    return [pid for pid in pids if exists(pid)]


def exists(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_command_that_ends_keeps_its_exit_code():
    done = run("10", "import sys; print('done'); sys.exit(5)")
    assert (done.returncode, done.stdout) == (5, "done\n")


def test_a_command_that_hangs_is_killed_with_its_child():
    program = f"import subprocess as s, sys; s.run([sys.executable, '-c', {SLEEPS!r}])"
    # The child has the pipes too, so `run` returns only after the child has ended.
    done = run("0.02", program)
    assert done.returncode == 124
    assert "still ran after 0.02 minutes" in done.stderr
    assert "TF_LSO_TEST_MINUTES" in done.stderr


@pytest.mark.parametrize(
    "grandchild", [SLEEPS, IGNORES_INTERRUPTS], ids=["sleeps", "ignores interrupts"]
)
@pytest.mark.parametrize("leader", ["group", in_its_own_session])
@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_command_with_its_descendants(
    signal_number, leader, grandchild
):
    command = [sys.executable, "-c", FAMILY, grandchild, leader]
    process = subprocess.Popen(
        [sys.executable, "-c", IMPATIENT, "10", *command],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    descendants = [int(pid) for pid in process.stdout.readline().split()]
    try:
        assert len(descendants) == 2
        process.send_signal(signal_number)
        code = process.wait(HANGS_AFTER)
        assert still_running(descendants) == []
        assert code == 128 + signal_number
    finally:
        for pid in descendants:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.kill()
        process.communicate()


# Prints that it was interrupted, and then a line that it reads after a second signal. The
# sleeps are short, because a signal does not end a sleep that starts right after it.
REPORTS = """
import time
try:
    print("ready", flush=True)
    while True:
        time.sleep(0.1)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    print(input(), flush=True)
"""


def test_the_second_sigterm_of_timeout_does_not_cut_the_report_short():
    """GNU `timeout` signals its command, and then the group of the command."""
    with subprocess.Popen(
        [sys.executable, bounded.__file__, "10", sys.executable, "-c", REPORTS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "interrupted\n"
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate("what failed\n", timeout=HANGS_AFTER)
    assert (rest, process.returncode) == ("what failed\n", 128 + signal.SIGTERM)


# A pytest plugin whose worker hangs in C code between two tests. No signal and no timeout of a
# test can end the worker there.
STUCK = """
import ctypes, os, signal

def pytest_runtest_logfinish(nodeid, location):
    if "PYTEST_XDIST_WORKER" in os.environ:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        print("stuck", flush=True)
        ctypes.CDLL(None).sleep(10_000)
"""


@pytest.mark.slow
def test_a_run_of_pytest_with_a_hanging_worker_is_killed(tmp_path):
    (tmp_path / "conftest.py").write_text(STUCK)
    (tmp_path / "test_a.py").write_text("def test_a(): pass\ndef test_b(): pass\n")
    program = f"import sys, pytest; sys.exit(pytest.main(['-n1', {str(tmp_path)!r}]))"
    assert run("0.1", program).returncode == 124
