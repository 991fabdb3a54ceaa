"""Loss scaling with Horovod: the orders of wrapping, in one process and in two.

`stand_in` has Horovod's interface. `expected.json` is what `program.py` printed with it
under TensorFlow 2.4.4, in which all orders give the same.
"""

import json
import os
import pathlib
import re
import sys

import pytest

from tests.generation import HAS_KERAS3
from tests.old_programs.test_programs import differences
from tests.processes import HANGS_AFTER, LEAN, QUIET, free_ports, run_workers

HERE = pathlib.Path(__file__).parent
EXPECTED = json.loads((HERE / "expected.json").read_text())
ORDERS = ("inside", "outside", "tape")


def workers(order, size, *options, legacy="0"):
    """Run `program.py` in `size` processes; return each one's RESULT and output.

    `legacy`: what TF_USE_LEGACY_KERAS is when TensorFlow is imported, which comes first.
    """
    command = [
        sys.executable,
        "-m",
        "tf_lso",
        "run",
        *options,
        HERE / "program.py",
        order,
    ]
    (port,) = free_ports(1)
    variables = {
        **QUIET,
        "PYTHONPATH": os.pathsep.join([str(HERE / "stand_in"), LEAN]),
        "TF_USE_LEGACY_KERAS": legacy,
    }
    own = {"HOROVOD_SIZE": str(size), "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port)}
    found, options = [], {"after_tensorflow": True, "own": own}
    for _, output in run_workers(command, size, HANGS_AFTER, variables, **options):
        lines = re.findall(r"RESULT (\{.*\})$", output, re.MULTILINE)
        found.append((json.loads(lines[-1]) if lines else None, output))
    return found


def check(found, size):
    for result, errors in found:
        assert result is not None, errors[-3000:]
        assert not differences(EXPECTED[str(size)], result), result


@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize(
    "order",
    ["inside", *(pytest.param(order, marks=pytest.mark.slow) for order in ORDERS[1:])],
)
def test_every_order_gives_what_tensorflow_2_4_gave(order, size):
    check(workers(order, size, "--like", "2.4", legacy="1"), size)


@pytest.mark.keras3
def test_the_tape_works_on_keras_3():
    check(workers("tape", 2), 2)


@pytest.mark.keras3
@pytest.mark.parametrize("order", ["inside", "outside"])
def test_the_optimizer_is_refused_on_keras_3(order):
    ((result, errors),) = workers(order, 1)
    assert result is None
    assert "made by Horovod's DistributedOptimizer" in errors
    assert "tf-lso run --like 2.4" in errors


@pytest.mark.skipif(
    HAS_KERAS3, reason="its optimizers are legacy ones only with --like"
)
@pytest.mark.parametrize("order", ["inside", "outside"])
def test_the_newer_optimizers_of_keras_2(order):
    check(workers(order, 1, "--like", "2.12"), 1)
