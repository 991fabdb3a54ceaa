"""Test loss scaling with Horovod in one process and in two, for each order of wrapping.

The folder `stand_in` contains a replacement for Horovod and the program that imports it.
`expected.json` contains the output of the program under TensorFlow 2.4.4. There, all orders of
wrapping give the same output.
"""

import json
import pathlib
import re
import sys

import pytest

from tests.generation import HAS_KERAS3, LEGACY_KERAS
from tests.old_programs.test_programs import differences
from tests.processes import HANGS_AFTER, QUIET, run_workers

HERE = pathlib.Path(__file__).parent
PROGRAM = HERE / "stand_in" / "program.py"
EXPECTED = json.loads((HERE / "expected.json").read_text())


def run_program(order, size, *options):
    """Run the program in `size` processes. Return a list of (result, output) for them.

    A single process gets no TF_USE_LEGACY_KERAS, so that `--like` itself chooses the Keras.
    """
    command = [sys.executable, "-m", "tf_lso", "run", *options, PROGRAM, order]
    variables, results = dict(QUIET), []
    if size > 1 or not options:
        variables["TF_USE_LEGACY_KERAS"] = LEGACY_KERAS if options else "0"
    for _, output in run_workers(command, size, HANGS_AFTER, variables):
        lines = re.findall(r"RESULT (\{.*\})$", output, re.MULTILINE)
        results.append((json.loads(lines[-1]) if lines else None, output))
    return results


def assert_expected(results, size):
    """Assert that every process had the result of TensorFlow 2.4.4."""
    for result, output in results:
        assert result is not None, output[-3000:]
        assert not differences(EXPECTED[str(size)], result), result


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("order", ["inside", "outside", "tape"])
def test_every_order_gives_what_tensorflow_2_4_gave(order, size):
    assert_expected(run_program(order, size, "--like", "2.4"), size)


@pytest.mark.slow
@pytest.mark.keras3
def test_the_tape_works_on_keras_3():
    assert_expected(run_program("tape", 2), 2)


@pytest.mark.slow
@pytest.mark.keras3
@pytest.mark.parametrize("order", ["inside", "outside"])
def test_the_optimizer_is_refused_on_keras_3(order):
    ((result, output),) = run_program(order, 1)
    assert result is None
    assert "made by Horovod's DistributedOptimizer" in output
    assert "tf-lso run --like 2.4" in output


@pytest.mark.skipif(
    HAS_KERAS3, reason="its optimizers are legacy ones only with --like"
)
@pytest.mark.parametrize("order", ["inside", "outside"])
def test_the_newer_optimizers_of_keras_2(order):
    assert_expected(run_program(order, 1, "--like", "2.12"), 1)
