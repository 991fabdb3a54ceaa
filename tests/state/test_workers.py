"""Two workers that each save, and go on; `test_resume.py` has two replicas."""

import itertools
import sys

import pytest

from tests.families import FAMILIES
from tests.processes import HANGS_AFTER, assert_succeeded, run_workers
from tests.state import programs

pytestmark = programs.needs_saving

_FORMATS = ("checkpoint, then built", "built, then checkpoint", "manager")
_WORKER = """
import json, os, pathlib, sys
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
from tests.families import FAMILIES
from tests.state import formats, programs
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
for family in FAMILIES:
    folder = pathlib.Path(sys.argv[1]) / family / str(index)
    program = programs.Program(family, loop="function", by=strategy)
    restored, end = formats.run(program, sys.argv[2:], folder)
    for name in restored:
        programs.assert_equal(end, programs.state(*formats.go_on(program, restored[name])))
        print(f"{family}, {name}, goes on", flush=True)
"""


@pytest.mark.multiworker
@pytest.mark.slow
def test_on_two_workers_that_each_save(tmp_path):
    command = [sys.executable, "-c", _WORKER, str(tmp_path), *_FORMATS]
    results = run_workers(command, 2, HANGS_AFTER)
    assert_succeeded(results)
    for family, name in itertools.product(FAMILIES, _FORMATS):
        assert all(f"{family}, {name}, goes on" in r.output for r in results)
