"""What is run, each part in a process of its own, and how its output is read."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_ROOT = Path(__file__).parents[2]
_MINUTES = 60  # that a part may take


class Part(NamedTuple):
    """One part of the run.

    Attributes:
      name: What the report calls it.
      arguments: What Python is called with.
      read: Takes the output and returns what the report says of it.
    """

    name: str
    arguments: list[str]
    read: Callable[[str], str]


class Result(NamedTuple):
    """What came of a part."""

    name: str
    passed: bool
    said: str
    output: str


def parts(count, quick=False):
    """The parts for so many devices, a list of `Part`.

    Args:
      count: int, the devices.
      quick: Whether to run little of each: to see that the tool itself works.
    """
    digits = str(_ROOT / "tf_lso" / "examples" / "digits.py")
    picture = str(Path(tempfile.gettempdir()) / "tf_lso_digits.png")
    found = [_contract("none", "1 device", "eager,function,jit", quick)]
    epochs = 5 if quick else 15
    found.append(_convergence(1, epochs, "fit in float16, XLA, 1 device"))
    if count > 1:
        found += [
            _contract(f"mirrored{count}", f"{count} replicas", "eager,function", quick),
            _convergence(count, epochs, f"fit in float16, {count} replicas"),
            Part(
                f"loop of 2020 in float16, {count} replicas",
                ["-m", "tf_lso", "run", digits, "--output", picture],
                _digits,
            ),
        ]
    return [*found, _benchmark(count, quick)]


def _contract(strategy, where, modes, quick):
    command = ["-m", "tests.contract", strategy]
    if quick:
        command += ["--modes", "function", "--choice", "families"]
        command += ["--only", "replica_skips", "--built"]
    else:
        command += ["--modes", modes, "--choice", "styles"]
    return Part(f"contract, {where}", command, _cases)


def _convergence(replicas, epochs, name):
    command = ["-m", "tools.gpus.convergence", str(replicas), str(epochs)]
    return Part(name, command, _result)


def _benchmark(count, quick):
    command = ["-m", "tools.benchmarks", "--families", "keras3"]
    command += ["--strategies", "default" if count < 2 else "default,mirrored2"]
    if quick:
        command += ["--quick", "--modes", "function", "--candidates", "tf_lso"]
    else:
        command += ["--modes", "function,xla", "--candidates", "peer,tf_lso"]
        command += ["--workloads", "tiny,model,resnet50"]
    return Part("benchmark", command, str.strip)


def _cases(output):
    failed = re.findall(r"^FAILED (.*)", output, re.MULTILINE)
    counts = re.findall(r"^\d+ cases passed, \d+ cases failed$", output, re.MULTILINE)
    return "\n".join([*counts[-1:], *(f"  {name}" for name in failed)])


def _result(output):
    found = re.findall(r"^RESULT (.*)", output, re.MULTILINE)
    return found[-1] if found else ""


def _digits(output):
    names = ("accuracy on held-out digits", "replicas", "skipped steps")
    names += ("final loss scale",)
    rows = [re.search(rf"^{name} +\S+", output, re.MULTILINE) for name in names]
    return ", ".join(" ".join(row[0].split()) for row in rows if row)


def run(part, environment):
    """Run a part to its end; return its `Result`."""
    bounded = [sys.executable, str(_ROOT / "tools" / "bounded.py"), str(_MINUTES)]
    whole = {**os.environ, "PYTHONPATH": str(_ROOT), **environment}
    whole.pop("TF_CONFIG", None)  # which would make it a worker of a cluster
    done = subprocess.run(
        [*bounded, sys.executable, *part.arguments],
        cwd=_ROOT,
        env=whole,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    said = part.read(done.stdout) or "said nothing"
    return Result(part.name, done.returncode == 0, said, done.stdout)
