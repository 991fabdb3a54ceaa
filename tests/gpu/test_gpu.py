"""Run the contract and the example on all GPUs of this machine, with `pytest --gpu`.

With TF_LSO_DEVICES=CPU, the tests use two logical CPUs and a small part of the contract, so
that the report can be tested without GPUs. Each test runs a separate process.
"""

import json
import os
import re
import subprocess
import sys

import pytest

from tests import devices
from tests.gpu import LINES
from tests.processes import ROOT

MINUTES = 60
pytestmark = pytest.mark.timeout(60 * (MINUTES + 1))


def run(*arguments):
    """Run Python on the chosen devices. Return its output, or fail with its output."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"}
    variables |= {devices.VARIABLE: devices.kind(), **devices.environment()}
    # With TF_CONFIG the process would be a worker of a cluster.
    variables.pop("TF_CONFIG", None)
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=60 * MINUTES,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def count(request):
    """The number of devices."""
    found = re.search("^FACTS (.*)", run("-m", "tests.gpu.machine"), re.MULTILINE)
    number, request.config.stash[LINES] = json.loads(found[1])
    if not number:
        del request.config.stash[LINES]
        pytest.exit(
            "TensorFlow finds no GPU here. Does nvidia-smi list one, and has "
            f"{os.path.dirname(sys.executable)}/pip installed tensorflow[and-cuda]?",
            2,
        )
    return number


def contract(strategy, *modes):
    command = ["-m", "tests.contract", strategy]
    if devices.kind() == devices.GPU:
        return run(*command, "--modes", *modes)
    command += ["--modes", "function", "--styles", "legacy", "--built"]
    return run(*command, "--only", "replica_skips")


@pytest.mark.usefixtures("count")
def test_contract_on_one_device(record_property):
    printed = contract("none", "eager", "function", "jit")
    record_property("cases", printed.splitlines()[-1])


def test_contract_on_all_devices(count, record_property):
    if count == 1:
        pytest.skip("there is one device")
    printed = contract(f"mirrored{count}", "eager", "function")
    record_property("cases", f"{count} replicas, {printed.splitlines()[-1]}")


def test_example(count, record_property, tmp_path):
    """Run a training loop of 2020 with float16, which must learn and skip some steps."""
    digits = str(ROOT / "tf_lso" / "examples" / "digits.py")
    printed = run("-m", "tf_lso", "run", digits, "--output", str(tmp_path / "it.png"))
    names = ("accuracy on held-out digits", "replicas", "skipped steps")
    values = {n: re.search(rf"^{n} +(\S+)", printed, re.MULTILINE)[1] for n in names}
    record_property("example", ", ".join(f"{n} {values[n]}" for n in names))
    assert int(values["replicas"]) == count
    assert int(values["skipped steps"]) > 0
