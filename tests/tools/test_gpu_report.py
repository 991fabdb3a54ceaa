"""Test `tools/test --gpu` on logical CPUs, which take the place of GPUs."""

import os
import subprocess
import sys

import pytest

from tests.processes import HANGS_AFTER, ROOT


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


@pytest.mark.slow
def test_without_a_gpu_the_run_ends_with_a_message():
    done = run_pytest_gpu(TF_LSO_DEVICES="GPU", CUDA_VISIBLE_DEVICES="-1")
    assert done.returncode == 2
    assert "finds no GPU here" in done.stdout and "paste" not in done.stdout
    assert "tensorflow[and-cuda]" in done.stdout
