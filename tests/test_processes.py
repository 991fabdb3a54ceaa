"""Tests of the bounded runner that the multi-worker tests stand on."""

import json
import os
import pathlib
import sys
import time

import pytest

from tests import preloaded
from tests.processes import HANGS_AFTER, WorkerResult, assert_succeeded, run_workers

# Ignores what ends most programs, and has a child.
_STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(10_000)"])
print(child.pid, flush=True)
time.sleep(10_000)
"""

# Worker 0 fails, the others wait for it as a collective would.
_CHIEF_FAILS = """
import json, os, sys, time
print("started", flush=True)
if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0:
    sys.exit(3)
time.sleep(10_000)
"""

# Worker 0 has nothing more to do, and worker 1 still asks something of it.
_ANOTHER_GOES_ON = """
import json, os, pathlib, socket, sys, time
config, ended = json.loads(os.environ["TF_CONFIG"]), pathlib.Path(sys.argv[1])
host, port = config["cluster"]["worker"][0].split(":")
if config["task"]["index"] == 0:
    server = socket.create_server((host, int(port)))
    ended.touch()
else:
    while not ended.exists():
        time.sleep(0.01)
    time.sleep(0.3)
    socket.create_connection((host, int(port))).close()
"""


def _python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


@pytest.mark.slow
def test_a_hanging_worker_is_killed_with_its_children_and_its_output_reported():
    results = run_workers(_python(_STUBBORN), count=2, timeout=10)
    for result in results:
        assert result.returncode == -9
        assert "still running after 10 s" in result.output
        assert not _lives(int(result.output.split()[0]))
    with pytest.raises(AssertionError, match="worker 1: exit code -9"):
        assert_succeeded(results)


def test_the_others_end_soon_after_one_failed():
    chief, other = run_workers(_python(_CHIEF_FAILS), 2, HANGS_AFTER, grace=0.5)
    assert chief == WorkerResult(3, "started\n")
    assert other.returncode == -9
    assert "after another worker failed" in other.output
    with pytest.raises(AssertionError, match="worker 1: exit code 3\nstarted"):
        assert_succeeded([WorkerResult(0, ""), chief])


@pytest.mark.skipif(not preloaded.CAN_FORK, reason="this system cannot fork")
def test_no_worker_after_tensorflow_leaves_before_the_others_end(tmp_path):
    command = [*_python(_ANOTHER_GOES_ON), str(tmp_path / "ended")]
    assert_succeeded(run_workers(command, 2, HANGS_AFTER, after_tensorflow=True))
    # But one that failed leaves at once: the others would wait for it.
    fails = {"argv": _python(_CHIEF_FAILS), "grace": 0.5, "after_tensorflow": True}
    chief, _ = run_workers(count=2, timeout=HANGS_AFTER, **fails)
    assert chief == WorkerResult(3, "started\n")


def test_workers_get_one_cluster_and_their_own_index():
    program = "import os; print(os.environ['TF_CONFIG']); print(os.environ['EXTRA'])"
    results = run_workers(_python(program), 3, HANGS_AFTER, {"EXTRA": "seen"})
    assert_succeeded(results)
    lines = [result.output.splitlines() for result in results]
    configs = [json.loads(config) for config, _ in lines]
    assert [config["task"]["index"] for config in configs] == [0, 1, 2]
    assert all(config["cluster"] == configs[0]["cluster"] for config in configs)
    assert len(set(configs[0]["cluster"]["worker"])) == 3
    assert [extra for _, extra in lines] == ["seen"] * 3


def test_much_output_does_not_block_a_worker():
    [result] = run_workers(_python("print('x' * 5_000_000)"), 1, timeout=HANGS_AFTER)
    assert result == WorkerResult(0, "x" * 5_000_000 + "\n")


def test_a_command_that_does_not_exist_leaves_nothing_running():
    with pytest.raises(FileNotFoundError):
        run_workers(["no-such-command-of-tf-lso"], count=2, timeout=5)


def _lives(pid: int) -> bool:
    """Whether `pid` still runs; a moment may pass until the system has reaped it."""
    for _ in range(50):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.1)
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] != "Z"  # a zombie
