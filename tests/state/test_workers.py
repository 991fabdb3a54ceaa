"""Two workers save and restore their state. `test_resume.py` does this on two replicas."""

import itertools
import sys

import pytest

from tests.families import FAMILIES
from tests.processes import HANGS_AFTER, assert_succeeded, run_workers
from tests.state import programs

pytestmark = programs.needs_saving

_FORMATS = ("checkpoint, then built", "built, then checkpoint")
_WORKER = """
import json, os, pathlib, sys
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
from tests.families import FAMILIES
from tests.state import formats, programs
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
for family in FAMILIES:
    folder = pathlib.Path(sys.argv[1]) / family / str(index)
    program = programs.Program(family, loop="function", strategy=strategy)
    restore_functions, end = formats.run(program, sys.argv[2:], folder)
    for name, restore in restore_functions.items():
        model, optimizer = formats.restore_and_train(program, restore)
        programs.assert_equal(end, programs.state(model, optimizer))
        print(f"{family}, {name}: equal", flush=True)
"""


@pytest.mark.multiworker
@pytest.mark.slow
def test_two_workers_that_are_restored_continue_bit_for_bit(tmp_path):
    command = [sys.executable, "-c", _WORKER, str(tmp_path), *_FORMATS]
    results = run_workers(command, 2, HANGS_AFTER)
    assert_succeeded(results)
    for family, name in itertools.product(FAMILIES, _FORMATS):
        for result in results:
            assert f"{family}, {name}: equal" in result.output
