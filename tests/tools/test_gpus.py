"""`tools/test --gpu`: all of it but the GPUs, on logical CPU devices."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import devices
from tests.processes import HANGS_AFTER
from tools.gpus import __main__ as command
from tools.gpus import parts, report

ROOT = Path(__file__).parents[2]
FACTS = {
    "devices": ["Some GPU (compute capability 8.0)"] * 2,
    "versions": {"tf_lso": "0.1.0", "tensorflow": "2.21.0"},
    "python": "3.11.7",
    "system": "Linux",
    "cuda": "12.5",
    "cudnn": "9",
    "merges": False,
}


@pytest.fixture(autouse=True)
def variables(monkeypatch):
    """The command sets one for its child processes."""
    monkeypatch.setenv(devices.VARIABLE, "CPU")


class TestTheDevices:
    def test_gpus_are_hidden_unless_they_are_asked_for(self, monkeypatch):
        assert devices.environment() == {"CUDA_VISIBLE_DEVICES": "-1"}
        monkeypatch.delenv(devices.VARIABLE)
        assert devices.kind() == "CPU"
        monkeypatch.setenv(devices.VARIABLE, "GPU")
        assert "CUDA_VISIBLE_DEVICES" not in devices.environment()

    def test_another_kind_is_refused(self, monkeypatch):
        monkeypatch.setenv(devices.VARIABLE, "TPU")
        with pytest.raises(ValueError, match="TF_LSO_DEVICES=TPU: use CPU or GPU"):
            devices.kind()


class TestTheParts:
    @pytest.mark.parametrize(("count", "others"), [(1, 0), (2, 3), (8, 3)])
    def test_several_devices_add_those_of_replicas(self, count, others):
        names = [part.name for part in parts.parts(count)]
        assert len(names) == len(set(names)) == 3 + others
        assert len([name for name in names if f"{count} replicas" in name]) == others

    def test_the_contract_runs_in_all_modes(self):
        contract = [
            part.arguments for part in parts.parts(4) if "contract" in part.name
        ]
        assert contract[0][:5] == [
            *("-m", "tests.contract", "none", "--modes", "eager,function,jit")
        ]
        assert contract[1][2:5] == ["mirrored4", "--modes", "eager,function"]

    def test_what_failed_is_named(self):
        output = "ok a 0.1\nFAILED b-keras3\n1 cases passed, 1 cases failed\n"
        (contract, *_) = parts.parts(1)
        assert contract.read(output) == ("1 cases passed, 1 cases failed\n  b-keras3")

    def test_a_part_that_ends_in_an_error_has_failed(self):
        part = parts.Part(
            "x", ["-c", "print('RESULT 7'); raise SystemExit(1)"], str.split
        )
        result = parts.run(part, {})
        assert not result.passed
        assert result.output == "RESULT 7\n"

    def test_a_part_is_no_worker_of_a_cluster(self, monkeypatch):
        monkeypatch.setenv("TF_CONFIG", "{}")
        code = "import os; print(os.environ.get('TF_CONFIG'), os.environ['ONE'])"
        assert parts.run(parts.Part("x", ["-c", code], str.strip), {"ONE": "1"}) == (
            *("x", True, "None 1", "None 1\n"),
        )


class TestTheReport:
    def test_has_the_machine_and_each_part(self):
        results = [
            parts.Result("contract", True, "9 cases passed, 0 cases failed", ""),
            parts.Result("fit", False, "said nothing", "Traceback\nOops\n"),
        ]
        text = report.text(FACTS, results)
        assert "devices: 2 x Some GPU (compute capability 8.0)" in text
        assert "MirroredStrategy: without merging" in text
        assert "contract: passed; 9 cases passed, 0 cases failed" in text
        assert "fit: FAILED; said nothing\n  | Traceback\n  | Oops\n" in text
        assert text.endswith("whole: FAILED: fit")
        assert report.text(FACTS, results[:1]).endswith("whole: passed")

    def test_goes_into_the_form_that_exists(self):
        assert (ROOT / report.FORM).exists()


class TestTheCommand:
    def test_without_a_gpu_it_says_so_in_one_line(self, monkeypatch, capsys):
        monkeypatch.setattr(command, "_facts", lambda environment: {"devices": []})
        assert command.main([]) == 2
        printed = capsys.readouterr()
        (line,) = printed.err.splitlines()
        assert "finds no GPU" in line and "tensorflow[and-cuda]" in line
        assert printed.out == ""

    def test_a_part_that_fails_is_reported_and_the_others_run(
        self, monkeypatch, capsys
    ):
        def run(part, environment):
            return parts.Result(part.name, "fit" not in part.name, "said", "")

        monkeypatch.setattr(command, "_facts", lambda environment: FACTS)
        monkeypatch.setattr(parts, "run", run)
        assert command.main([]) == 1
        printed = capsys.readouterr().out
        assert "benchmark: passed" in printed
        assert printed.endswith("fit in float16, 2 replicas\n")

    def test_its_help_needs_no_environment(self, tmp_path):
        shown = subprocess.run(
            [ROOT / "tools" / "test", "--gpu", "--help"],
            env={**os.environ, "PYTHON": "no-such-python"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        assert "usage: tools/test --gpu" in shown.stdout


@pytest.mark.slow
def test_all_parts_pass_on_logical_cpus():
    """What runs on GPUs, but little of each part, and without GPUs."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.gpus", "--devices", "CPU", "--quick"],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "XLA_FLAGS": "--xla_backend_optimization_level=0",  # compiles sooner
        },
        capture_output=True,
        text=True,
        timeout=2 * HANGS_AFTER,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for part in parts.parts(2, quick=True):
        assert f"{part.name}: passed" in done.stdout
    assert "devices: 2 x logical CPU" in done.stdout
    assert ", replicas 2, skipped steps " in done.stdout
    assert "MirroredStrategy: merges the replicas" in done.stdout


@pytest.mark.slow
def test_the_machine_without_gpus_has_none():
    done = subprocess.run(
        [sys.executable, "-m", "tools.gpus"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
