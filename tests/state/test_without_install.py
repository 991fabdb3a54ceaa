"""What files lack without `tf_lso.install()`, as the page on files says."""

import json

import pytest

from tests import preloaded
from tests.families import PACKAGES
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

# The state of the optimizer that a file restores if it was saved without install(). The name
# "folder" stands for a SavedModel.
ALL, ALL_BUT_SCALE, NOTHING = "all", "all but the scale", "nothing"
FILES = {
    ("keras3", "m.keras"): ALL,
    ("new", "m.keras"): ALL,
    ("new", "m.h5"): ALL_BUT_SCALE,
    (
        "new",
        "folder",
    ): NOTHING,  # the file contains all state, but Keras 2 does not load it
    ("legacy", "m.keras"): NOTHING,
    ("legacy", "m.h5"): ALL_BUT_SCALE,
    ("legacy", "folder"): NOTHING,
}

_LOAD = """
import sys
import tf_lso
import {keras}
model = {keras}.models.load_model(sys.argv[1])
scale = model.optimizer.loss_scale
print(type(model.optimizer).__module__, float(scale), int(model.optimizer.iterations))
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


_SAVE = """
import sys
from tests.generation import ZIPPED
from tests.state import programs
family, name, path = sys.argv[1:]
program = programs.Program(family)
model, optimizer = program.make(seed=1)
program.train(model, optimizer, 0, programs.SAVED_AT)
options = {"m.keras": ZIPPED, "folder": {"save_format": "tf"}}
model.save(path, **options.get(name, {}))
print(float(optimizer.loss_scale), int(optimizer.iterations))
"""


@pytest.mark.parametrize(("family", "name"), FILES)
def test_a_file_loads_in_a_process_that_only_imports_tf_lso(family, name, tmp_path):
    path, module = tmp_path / name, PACKAGES[family]
    saved_numbers = run(_SAVE, family, name, path, by=preloaded.run)
    printed = run(_LOAD.format(keras=module), path, by=start)
    restores = FILES[family, name]
    _, iterations = saved_numbers.split()
    expected = {
        ALL: saved_numbers,
        ALL_BUT_SCALE: f"64.0 {iterations}",
        NOTHING: "64.0 0",
    }
    assert printed == f"tf_lso.optimizers.loss_scale_optimizer {expected[restores]}"


def test_importing_tf_lso_imports_no_keras():
    code = "import sys, tf_lso; print({'keras', 'tensorflow'} & sys.modules.keys())"
    assert run(code) == "set()"
