"""The contract on four replicas, and on workers: processes that talk over loopback."""

import sys

import pytest

from tests.families import CURRENT
from tests.processes import HANGS_AFTER, assert_succeeded, run_workers

SLOW, WORKERS = pytest.mark.slow, pytest.mark.multiworker


# Each row has a number of processes, and the arguments of `tests/contract/__main__.py`. Few
# rows have all families, because test_contract.py has all of them on two replicas.
@pytest.mark.parametrize(
    ("workers", "arguments"),
    [
        pytest.param(
            1,
            f"mirrored4 --modes function --families {CURRENT} --styles legacy --built",
            marks=SLOW,
        ),
        pytest.param(
            2,
            "multiworker --modes eager --styles legacy",
            marks=[SLOW, WORKERS],
        ),
        pytest.param(
            2,
            "multiworker --modes function --families legacy keras3 --styles legacy --built",
            marks=[SLOW, WORKERS],
        ),
        pytest.param(
            2,
            "multiworker --modes function --families new --styles keras3",
            marks=[SLOW, WORKERS],
        ),
        # Of three workers, one is neither the first nor the last worker. Such a worker matters
        # when all workers must skip a step because one worker has an overflow.
        pytest.param(
            3,
            f"multiworker --modes function --families {CURRENT} --styles legacy --built"
            " --only skip",
            marks=WORKERS,
        ),
    ],
)
def test_the_contract_in_processes(workers, arguments):
    command = [sys.executable, "-m", "tests.contract", *arguments.split()]
    results = run_workers(command, workers, HANGS_AFTER)
    assert_succeeded(results)
    for result in results:
        assert " cases passed, 0 cases failed" in result.output
