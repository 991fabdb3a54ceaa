"""Without `tf_lso.install()`: files keep all state, or an error says that they do not.

From the first wrapped optimizer of tf_keras on, it saves and loads all of it.
"""

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
from tests.state import formats, programs
family, folder = sys.argv[1], pathlib.Path(sys.argv[2])
names = [name for name in formats.FORMATS if formats.exists(name, family)]
program = programs.Program(family)
saved, end = formats.run(program, names, folder)
ends = {}
for name in names:
    assert callable(saved[name]), saved[name]
    other = formats.go_on(program, saved[name])
    programs.assert_equal(end, programs.state(*other))
    ends[name] = str(type(other[1]))
print(json.dumps(ends))
"""

_LOAD = """
import sys
import {first}
import {second}
model = {keras}.models.load_model(sys.argv[1])
scale = model.optimizer.loss_scale
print(type(model.optimizer).__module__, float(scale), int(model.optimizer.iterations))
"""


def run(code, *arguments, by=start):
    done = by(["-c", code, *map(str, arguments)])
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("family", ["keras3", "legacy", "new"])
def test_all_formats_go_on(family, tmp_path):
    ends = json.loads(run(_ALL, family, tmp_path, by=preloaded.run))
    assert len(ends) == (12 if family == "keras3" else 15)
    assert all("tf_lso" in end for end in ends.values())


_SAVE = """
import sys
from tests.generation import ZIPPED
from tests.state import programs
program = programs.Program(sys.argv[1])
made = program.make(seed=1)
program.train(*made, 0, programs.SAVED_AT)
made[0].save(sys.argv[2], **ZIPPED)
print(float(made[1].loss_scale), int(made[1].iterations))
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The .keras file of a family, and its scale and steps; made once."""

    @functools.cache
    def save(family):
        path = tmp_path_factory.mktemp(family) / "m.keras"
        return path, run(_SAVE, family, path, by=preloaded.run)

    return save


@pytest.mark.parametrize("tf_lso_first", [True, False])
@pytest.mark.parametrize("family", ["keras3", "legacy", "new"])
def test_a_keras_file_loads_in_a_process_that_only_imports_tf_lso(
    family, tf_lso_first, saved
):
    path, expected = saved(family)
    module = PACKAGES[family]
    first, second = ("tf_lso", module) if tf_lso_first else (module, "tf_lso")
    code = _LOAD.format(first=first, second=second, keras=module)
    # A Keras that comes first imports TensorFlow first.
    by = start if tf_lso_first else preloaded.run
    assert run(code, path, by=by) == (
        f"tf_lso.optimizers.loss_scale_optimizer {expected}"
    )


def test_importing_tf_lso_imports_no_keras():
    code = "import sys, tf_lso; print({'keras', 'tensorflow'} & sys.modules.keys())"
    assert run(code) == "set()"
