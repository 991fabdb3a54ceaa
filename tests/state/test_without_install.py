"""Without `tf_lso.install()`: files keep all state, or a warning says what they lack."""

import functools
import json

import pytest

from tests import preloaded
from tests.families import PACKAGES
from tests.processes import start
from tests.state import programs

pytestmark = [pytest.mark.slow, programs.needs_saving]

_ALL = """
import json, pathlib, sys
import numpy as np
from tests.state import formats, programs
family, folder = sys.argv[1], pathlib.Path(sys.argv[2])
names = [name for name in formats.FORMATS if formats.exists(name, family)]
program = programs.Program(family)
saved, end = formats.run(program, names, folder)
ends = {}
for name in names:
    assert callable(saved[name]), saved[name]
    other = formats.go_on(program, saved[name])
    now = programs.state(*other)
    ends[name] = all(np.array_equal(end[key], now[key], equal_nan=True) for key in end)
print(json.dumps(ends))
"""

# Family -> the formats that do not keep all state.
LACKING = {
    "keras3": set(),
    "new": {".h5", "SavedModel"},
    "legacy": {
        *(
            ".h5",
            "SavedModel",
            ".keras",
            "deepcopy of the model",
            "pickle of the model",
        ),
        *(".weights.h5, then built", "built, then .weights.h5"),
    },
}

# Family and file -> what is saved without install(), and what of it is loaded.
WHOLE, NO_SCALE, NOTHING = "whole", "no scale", "nothing"
FILES = {
    ("keras3", "m.keras"): WHOLE,
    ("new", "m.keras"): WHOLE,
    ("new", "m.h5"): NO_SCALE,
    (
        "new",
        "folder",
    ): NOTHING,  # a SavedModel: it has all, but Keras 2 does not load it
    ("legacy", "m.keras"): NOTHING,
    ("legacy", "m.h5"): NO_SCALE,
    ("legacy", "folder"): NOTHING,
}

_LOAD = """
import sys
import {first}
import {second}
model = {keras}.models.load_model(sys.argv[1])
scale = model.optimizer.loss_scale
print(type(model.optimizer).__module__, float(scale), int(model.optimizer.iterations))
"""


def run(code, *arguments, by=start):
    """Return the last line that a program prints, and its warnings."""
    done = by(["-c", code, *map(str, arguments)])
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()[-1], done.stderr


@pytest.mark.parametrize("family", LACKING)
def test_all_formats_go_on_but_those_that_say_so(family, tmp_path):
    printed, warnings = run(_ALL, family, tmp_path, by=preloaded.run)
    ends = json.loads(printed)
    assert len(ends) == (12 if family == "keras3" else 15)
    assert {name for name, is_whole in ends.items() if not is_whole} == LACKING[family]
    for kind in LACKING[family] & {".h5", ".keras"}:
        saves, loads = (
            f"from a file of the kind {kind}",
            f"in a file of the kind {kind}",
        )
        assert saves in warnings and loads in warnings
    assert ("of the kind SavedModel" in warnings) == bool(LACKING[family])


_SAVE = """
import sys
from tests.generation import ZIPPED
from tests.state import programs
family, name, path = sys.argv[1:]
program = programs.Program(family)
made = program.make(seed=1)
program.train(*made, 0, programs.SAVED_AT)
options = {"m.keras": ZIPPED, "folder": {"save_format": "tf"}}
made[0].save(path, **options.get(name, {}))
print(float(made[1].loss_scale), int(made[1].iterations))
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The path of a file of a family, and its scale and steps; made once."""

    @functools.cache
    def save(family, name):
        path = tmp_path_factory.mktemp(family) / name
        return path, run(_SAVE, family, name, path, by=preloaded.run)[0]

    return save


@pytest.mark.parametrize("tf_lso_first", [True, False])
@pytest.mark.parametrize(("family", "name"), FILES)
def test_a_file_loads_in_a_process_that_only_imports_tf_lso(
    family, name, tf_lso_first, saved
):
    path, whole = saved(family, name)
    module = PACKAGES[family]
    first, second = ("tf_lso", module) if tf_lso_first else (module, "tf_lso")
    code = _LOAD.format(first=first, second=second, keras=module)
    # A Keras that comes first imports TensorFlow first.
    printed, warnings = run(code, path, by=start if tf_lso_first else preloaded.run)
    steps = whole.split()[1]
    expected = {WHOLE: whole, NO_SCALE: f"64.0 {steps}", NOTHING: "64.0 0"}
    loaded = FILES[family, name]
    assert printed == f"tf_lso.optimizers.loss_scale_optimizer {expected[loaded]}"
    assert ("tf_lso.install()" in warnings) == (loaded != WHOLE)


def test_importing_tf_lso_imports_no_keras():
    code = "import sys, tf_lso; print({'keras', 'tensorflow'} & sys.modules.keys())"
    assert run(code)[0] == "set()"
