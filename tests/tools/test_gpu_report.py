"""Test `tools/test --gpu` on logical CPUs, which take the place of GPUs."""

import os
import re
import subprocess
import sys
from unittest import mock

import pytest

from tests import devices
from tests.gpu import LINES, conftest
from tests.processes import HANGS_AFTER, ROOT


def test_gpus_are_hidden_unless_they_are_asked_for(monkeypatch):
    monkeypatch.setenv(devices.VARIABLE, "CPU")
    assert devices.environment() == {"CUDA_VISIBLE_DEVICES": "-1"}
    monkeypatch.delenv(devices.VARIABLE)
    assert devices.kind() == "CPU"
    monkeypatch.setenv(devices.VARIABLE, "GPU")
    assert "CUDA_VISIBLE_DEVICES" not in devices.environment()
    monkeypatch.setenv(devices.VARIABLE, "TPU")
    with pytest.raises(ValueError, match="TF_LSO_DEVICES=TPU: use CPU or GPU"):
        devices.kind()


def run_pytest_gpu(**variables):
    """Run `pytest --gpu` as tools/test does."""
    arguments = "-m pytest -p no:cacheprovider --gpu tests/gpu".split()
    # Without optimizations XLA compiles faster.
    faster = {"XLA_FLAGS": "--xla_backend_optimization_level=0"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **faster, **variables},
        capture_output=True,
        text=True,
        timeout=2 * HANGS_AFTER,
    )


@pytest.mark.slow
def test_all_tests_pass_on_logical_cpus_and_are_reported():
    """The run uses logical CPUs, and a small part of the contract."""
    done = run_pytest_gpu(TF_LSO_DEVICES="CPU")
    assert done.returncode == 0, done.stdout + done.stderr
    _, block = done.stdout.split("its form is .github/ISSUE_TEMPLATE/gpu.yml")
    assert "devices: 2 x logical CPU" in block
    assert "MirroredStrategy: merges the replicas" in block
    for name in ("contract_on_one_device", "contract_on_all_devices", "example"):
        assert f"{name}: passed; " in block
    assert "2 replicas, " in block and " cases passed, 0 cases failed" in block
    assert "replicas 2, skipped steps " in block
    assert "whole: passed" in block


def test_a_test_that_fails_is_reported_with_its_last_lines():
    name = "tests/gpu/test_gpu.py::test_"
    good = mock.Mock(nodeid=f"{name}contract", failed=False)
    good.user_properties = [("a", "9 cases")]
    bad = mock.Mock(nodeid=f"{name}example", failed=True, user_properties=[])
    bad.longreprtext = "Trace\nOops\n"
    reporter, config = mock.Mock(), mock.Mock(stash={})
    reporter.getreports = {"passed": [good], "failed": [bad]}.get
    conftest.pytest_terminal_summary(reporter, config)
    assert reporter.method_calls == []  # a machine without GPUs has no report
    config.stash[LINES] = ["a machine"]
    conftest.pytest_terminal_summary(reporter, config)
    (_, (heading,), _), (_, (block,), _) = reporter.method_calls
    assert block.splitlines() == [
        "a machine",
        "contract: passed; 9 cases",
        "example: failed; ",
        "  | Trace",
        "  | Oops",
        "whole: FAILED: example",
    ]
    (form,) = re.findall(r"its form is (\S+)\)", heading)
    assert (ROOT / form).exists()


@pytest.mark.slow
def test_without_a_gpu_the_run_ends_with_a_message():
    done = run_pytest_gpu(TF_LSO_DEVICES="GPU", CUDA_VISIBLE_DEVICES="-1")
    assert done.returncode == 2
    assert "finds no GPU here" in done.stdout and "paste" not in done.stdout
    assert "tensorflow[and-cuda]" in done.stdout
