"""Test `run_workers`, which the multi-worker tests use. No worker may make it hang."""

import contextlib
import json
import socket
import subprocess
import sys

import pytest

from tests.processes import (
    HANGS_AFTER,
    WorkerResult,
    assert_succeeded,
    free_ports,
    run_workers,
)

# Worker 0 hangs, with a child that keeps a connection to a port open. Neither process reacts
# to SIGTERM. Worker 1 fails as soon as it finds the file that the child makes.
ONE_HANGS = """
import json, os, pathlib, signal, socket, sys, time
port, connected = int(sys.argv[1]), pathlib.Path(sys.argv[2])
if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1:
    while not connected.exists():
        time.sleep(0.01)
    print("failed", flush=True)
    sys.exit(3)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    connection = socket.create_connection(("127.0.0.1", port))
    connected.touch()
time.sleep(10_000)
"""


def python(program):
    return [sys.executable, "-S", "-c", program]


def test_a_worker_may_print_more_than_a_pipe_holds():
    [result] = run_workers(python("print('x' * 5_000_000)"), 1, timeout=60)
    assert result == WorkerResult(0, "x" * 5_000_000 + "\n")


def test_a_command_that_does_not_exist_is_an_error():
    with pytest.raises(FileNotFoundError, match="no-such-command"):
        run_workers(["no-such-command"], 2, HANGS_AFTER)


def test_earlier_workers_are_killed_if_a_later_one_cannot_start(monkeypatch):
    started, popen = [], subprocess.Popen

    def only_once(*args, **kwargs):
        if started:
            raise OSError("there are too many processes")
        started.append(popen(*args, **kwargs))
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", only_once)
    with pytest.raises(OSError, match="too many processes"):
        run_workers(python("import time; time.sleep(10_000)"), 2, HANGS_AFTER)
    assert started[0].poll() == -9


def test_a_worker_that_hangs_is_killed_after_the_timeout():
    [result] = run_workers(python("import time; time.sleep(10_000)"), 1, timeout=0.1)
    assert result == WorkerResult(-9, "\n[killed: still running after 0.1 s]\n")


def test_a_worker_that_hangs_is_killed_with_its_child_after_another_fails(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port, connected = str(server.getsockname()[1]), str(tmp_path / "connected")
        command = [*python(ONE_HANGS), port, connected]
        hung, failed = run_workers(command, 2, HANGS_AFTER, grace=0.1)
        connection, _ = server.accept()
        with connection:
            connection.settimeout(HANGS_AFTER)
            assert connection.recv(1) == b""  # the child has ended, or this would wait
    assert hung.returncode == -9 and "[killed" in hung.output
    assert failed == WorkerResult(3, "failed\n")


def test_assert_succeeded_shows_the_output_of_a_worker_that_failed():
    failed = WorkerResult(3, "failed\n")
    with pytest.raises(AssertionError, match="worker 1: exit code 3\nfailed"):
        assert_succeeded([WorkerResult(0, ""), failed])


def test_workers_get_the_same_cluster_and_the_given_variables():
    program = "import os; print(os.environ['TF_CONFIG']); print(os.environ['EXTRA'])"
    results = run_workers(python(program), 3, HANGS_AFTER, {"EXTRA": "seen"})
    assert_succeeded(results)
    printed = [result.output.splitlines() for result in results]
    configs = [json.loads(config) for config, _ in printed]
    assert [config["task"]["index"] for config in configs] == [0, 1, 2]
    addresses = configs[0]["cluster"]["worker"]
    assert len(set(addresses)) == 3
    assert all(config["cluster"]["worker"] == addresses for config in configs)
    assert [extra for _, extra in printed] == ["seen"] * 3


def test_free_ports_are_different_and_not_in_use():
    with contextlib.ExitStack() as stack:
        first = free_ports(20)
        for port in first:
            stack.enter_context(socket.create_server(("127.0.0.1", port)))
        second = free_ports(20)
    assert len({*first, *second}) == 40
