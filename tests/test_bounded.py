"""The bound that tools/test puts over the whole run."""

import subprocess
import sys

import pytest

from tests.processes import HANGS_AFTER
from tests.programs_in_processes import ROOT

BOUNDED = [sys.executable, str(ROOT / "tools" / "bounded.py")]


def run(minutes, program):
    return subprocess.run(
        [*BOUNDED, minutes, sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER,
        check=False,
    )


@pytest.mark.parametrize("code", [0, 5])
def test_a_command_that_ends_keeps_its_exit_code(code):
    done = run("10", f"import sys; print('done'); sys.exit({code})")
    assert (done.returncode, done.stdout) == (code, "done\n")


def test_a_command_that_hangs_is_ended_with_its_children():
    child = "import time; time.sleep(10_000)"
    program = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "time.sleep(10_000)\n"
    )
    # The child has the pipes too: `run` returns after it is gone.
    done = run("0.1", program)
    assert done.returncode == 124
    assert "still ran after 0.1 minutes" in done.stderr
    assert "TF_LSO_TEST_MINUTES" in done.stderr
