"""`tools/test --gpu`: runs the parts and prints the report."""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests import devices
from tools.gpus import parts, report

_ROOT = Path(__file__).parents[2]
_DESCRIPTION = """\
Runs on the GPUs of this machine what the other tests run on CPUs: the contract of all
optimizers, training in float16 on one GPU by XLA and on all of them, and the benchmark.
It prints a block to paste into an issue, whether all passed or not. It takes a while.
"""
_EPILOG = """\
exit codes:
  0    all passed
  1    something failed
  2    there is no GPU that TensorFlow can use
"""


def main(arguments=None):
    """Run the command line; return the exit code."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "tools/test --gpu", None, _DESCRIPTION, _EPILOG, formatter_class=raw
    )
    parser.add_argument(
        "--devices",
        choices=[devices.GPU, devices.CPU],
        default=devices.GPU,
        help="CPU: two logical devices in place of GPUs, to test the tool itself",
    )
    parser.add_argument("--quick", action="store_true", help="little of each part")
    options = parser.parse_args(arguments)
    os.environ[devices.VARIABLE] = options.devices
    environment = {devices.VARIABLE: options.devices, "TF_CPP_MIN_LOG_LEVEL": "2"}
    environment |= devices.environment()

    facts = _facts(environment)
    if not facts["devices"]:
        print(
            "tools/test --gpu: TensorFlow finds no GPU here. Does nvidia-smi list one, "
            f"and has {Path(sys.executable).parent}/pip installed tensorflow[and-cuda]?",
            file=sys.stderr,
        )
        return 2
    results = []
    for part in parts.parts(len(facts["devices"]), options.quick):
        print(f"{part.name} ...", file=sys.stderr, flush=True)
        results.append(parts.run(part, environment))
        word = "passed" if results[-1].passed else "FAILED"
        print(f"{part.name} {word}", file=sys.stderr, flush=True)
    print(
        "Please paste what follows into an issue «A report from GPUs» (its form is "
        f"{report.FORM})",
        file=sys.stderr,
    )
    print(report.text(facts, results))
    return 0 if all(result.passed for result in results) else 1


def _facts(environment):
    done = subprocess.run(
        [sys.executable, "-m", "tools.gpus.machine"],
        cwd=_ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"^FACTS (.*)", done.stdout, re.MULTILINE)
    if not found:
        raise SystemExit(f"tools/test --gpu: TensorFlow failed:\n{done.stderr[-2000:]}")
    return json.loads(found[1])


if __name__ == "__main__":
    sys.exit(main())
