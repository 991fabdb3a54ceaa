"""What a run was measured on, and what importing costs. No TensorFlow here."""

import importlib.metadata
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

_ROOT = pathlib.Path(__file__).parents[2]

_IMPORTS = """
import time
start = time.perf_counter()
import tensorflow, keras
tensorflow.keras, keras.optimizers.SGD  # both are loaded at first use
between = time.perf_counter()
import tf_lso
imported = time.perf_counter()
tf_lso.LossScaleOptimizer
print(between - start, imported - between, time.perf_counter() - between)
"""
_PARTS = (
    "import tensorflow and keras",
    "import tf_lso after that",
    "import tf_lso and first use of LossScaleOptimizer after that",
)


def environment():
    """Versions and machine, as a dict for the JSON."""
    return {
        "tensorflow": _version("tensorflow", "tensorflow-cpu"),
        "keras": _version("keras"),
        "tf_keras": _version("tf-keras"),
        "tf_lso": _commit(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load": list(os.getloadavg()),
        "date": time.strftime("%Y-%m-%d %H:%M"),
    }


def import_seconds(count):
    """Medians of the seconds that imports take, each in a fresh process.

    Args:
      count: number of processes.
    """
    runs = []
    for _ in range(count):
        done = subprocess.run(
            [sys.executable, "-c", _IMPORTS],
            env={
                **os.environ,
                "CUDA_VISIBLE_DEVICES": "-1",
                "TF_CPP_MIN_LOG_LEVEL": "3",
            },
            cwd=_ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        runs.append([float(value) for value in done.stdout.split()])
    return dict(zip(_PARTS, map(statistics.median, zip(*runs)), strict=True))


def _version(*names):
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return None


def _commit():
    """The commit of the checkout, and whether it has changes; None without git."""
    command = ["git", "-C", str(_ROOT), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _processor():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [
        line.split(":")[1].strip() for line in lines if line.startswith("model name")
    ]
    return names[0] if names else platform.machine()
