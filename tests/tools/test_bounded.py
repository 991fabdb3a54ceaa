"""The bound that tools/test puts over the whole run."""

import sys

import pytest

from tests.processes import start
from tools import bounded

# With less patience for what it has interrupted.
IMPATIENT = f"""
import sys
from tools import bounded
bounded.GRACE_SECONDS = {bounded.GRACE_SECONDS / 10}
sys.exit(bounded.main(*sys.argv[1:]))
"""


def run(minutes, program):
    return start(["-c", IMPATIENT, minutes, sys.executable, "-c", program])


def test_a_command_that_ends_keeps_its_exit_code():
    done = run("10", "import sys; print('done'); sys.exit(5)")
    assert (done.returncode, done.stdout) == (5, "done\n")


def test_a_command_that_hangs_is_ended_with_its_children():
    child = "import time; time.sleep(10_000)"
    program = f"import subprocess as s, sys; s.run([sys.executable, '-c', {child!r}])"
    # The child has the pipes too: `run` returns after it is gone.
    done = run("0.02", program)
    assert done.returncode == 124
    assert "still ran after 0.02 minutes" in done.stderr
    assert "TF_LSO_TEST_MINUTES" in done.stderr


# Stuck in C between two tests, where no signal and no timeout of a test reaches it.
STUCK = """
import ctypes, os, signal

def pytest_runtest_logfinish(nodeid, location):
    if "PYTEST_XDIST_WORKER" in os.environ:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        print("stuck", flush=True)
        ctypes.CDLL(None).sleep(10_000)
"""


@pytest.mark.slow
def test_a_run_of_pytest_whose_worker_hangs_is_ended(tmp_path):
    (tmp_path / "conftest.py").write_text(STUCK)
    (tmp_path / "test_a.py").write_text("def test_a(): pass\ndef test_b(): pass\n")
    program = f"import sys, pytest; sys.exit(pytest.main(['-n1', {str(tmp_path)!r}]))"
    assert run("0.1", program).returncode == 124
