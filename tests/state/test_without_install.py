"""What files lack without `tf_lso.install()`, as the page on files says."""

import json

import pytest

from tests import preloaded
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


@pytest.mark.parametrize("family", INCOMPLETE)
def test_the_formats_that_do_not_contain_all_state(family, tmp_path):
    done = preloaded.run(["-c", _SAVE_AND_RESTORE_ALL, family, str(tmp_path)])
    assert done.returncode == 0, done.stderr[-3000:]
    is_equal = json.loads(done.stdout.splitlines()[-1])
    assert len(is_equal) == (11 if family == "keras3" else 14)
    incomplete = {name for name in is_equal if not is_equal[name]}
    assert incomplete == INCOMPLETE[family]
