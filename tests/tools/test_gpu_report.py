"""Test `tools/test --gpu` on logical CPUs, which take the place of GPUs."""

import os
import subprocess
import sys

import pytest

from tests.processes import HANGS_AFTER, ROOT


@pytest.mark.slow
def test_all_tests_pass_on_logical_cpus_and_are_reported():
    """The run uses logical CPUs, and a small part of the contract."""
    # Without optimizations XLA compiles faster.
    faster = {"XLA_FLAGS": "--xla_backend_optimization_level=0"}
    done = subprocess.run(
        [sys.executable, *"-m pytest -p no:cacheprovider --gpu tests/gpu".split()],
        cwd=ROOT,
        env={**os.environ, **faster, "TF_LSO_DEVICES": "CPU"},
        capture_output=True,
        text=True,
        timeout=2 * HANGS_AFTER,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    _, block = done.stdout.split("its form is .github/ISSUE_TEMPLATE/gpu.yml")
    for name in ("contract_on_one_device", "contract_on_all_devices", "example"):
        assert f"{name}: passed; " in block
    assert "2 replicas, " in block and " cases passed, 0 cases failed" in block
