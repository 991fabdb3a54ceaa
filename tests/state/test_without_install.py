"""What files lack without `tf_lso.install()`, as the page on files says."""

import json

import pytest

from tests import preloaded
from tests.families import PACKAGES, here
from tests.processes import start
from tests.state import programs

pytestmark = [pytest.mark.slow, programs.needs_saving]

_SAVE_AND_RESTORE_ALL = """
import json, pathlib, sys
import numpy as np
from tests.state import formats, programs
family, folder = sys.argv[1], pathlib.Path(sys.argv[2])
names = [name for name in formats.FORMATS if formats.exists(name, family)]
program = programs.Program(family)
restore_functions, expected = formats.run(program, names, folder)
is_equal = {}
for name in names:
    model, optimizer = formats.restore_and_train(program, restore_functions[name])
    state = programs.state(model, optimizer)
    is_equal[name] = all(
        np.array_equal(expected[key], state[key], equal_nan=True) for key in expected
    )
print(json.dumps(is_equal))
"""

# For each family, the formats that do not contain all state without install().
INCOMPLETE = {
    "keras3": set(),
    "new": {".h5", "SavedModel"},
    "legacy": {
        ".h5",
        "SavedModel",
        ".keras",
        ".weights.h5, then built",
        "built, then .weights.h5",
        "deepcopy of the model",
        "pickle of the model",
    },
}

_SAVE = """
import sys
from tests.generation import ZIPPED
from tests.state import programs
family, path = sys.argv[1:]
program = programs.Program(family)
model, optimizer = program.make(seed=1)
program.train(model, optimizer, 0, programs.SAVED_AT)
model.save(path, **ZIPPED)
print(float(optimizer.loss_scale), int(optimizer.iterations))
"""
_LOAD = """
import sys
import tf_lso
import {keras}
optimizer = {keras}.models.load_model(sys.argv[1]).optimizer
assert isinstance(optimizer, tf_lso.LossScaleOptimizer)
print(float(optimizer.loss_scale), int(optimizer.iterations))
"""


def run(code, *arguments, by=start):
    """Run a program, and return the last line that it prints."""
    done = by(["-c", code, *map(str, arguments)])
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("family", INCOMPLETE)
def test_the_formats_that_do_not_contain_all_state(family, tmp_path):
    printed = run(_SAVE_AND_RESTORE_ALL, family, tmp_path, by=preloaded.run)
    is_equal = json.loads(printed)
    assert len(is_equal) == (12 if family == "keras3" else 15)
    incomplete = {name for name in is_equal if not is_equal[name]}
    assert incomplete == INCOMPLETE[family]


@pytest.mark.parametrize("family", here("keras3", "new"))
def test_a_keras_file_loads_in_a_process_that_only_imports_tf_lso(family, tmp_path):
    path, module = tmp_path / "m.keras", PACKAGES[family]
    saved_numbers = run(_SAVE, family, path, by=preloaded.run)
    assert run(_LOAD.format(keras=module), path) == saved_numbers


def test_importing_tf_lso_imports_no_keras():
    code = "import sys, tf_lso; print({'keras', 'tensorflow'} & sys.modules.keys())"
    assert run(code) == "set()"
