"""Small programs that need a process of their own."""

import os
import pathlib
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).parents[1]


def start(arguments, **environment):
    """Run Python with `arguments` to its end; return what it did.

    Args:
      arguments: list of str.
      **environment: variables to set.
    """
    return subprocess.run(
        [sys.executable, *arguments],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "CUDA_VISIBLE_DEVICES": "-1",
            "TF_CPP_MIN_LOG_LEVEL": "3",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def run(program, **environment):
    """Run Python on `program`; return the lines it printed, or fail with its errors."""
    done = start(["-c", textwrap.dedent(program)], **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
