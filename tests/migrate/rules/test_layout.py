"""If names move out of an import, no comment is lost, and the layout of the rest stays."""

import sys

import pytest

from tests.migrate.programs import assert_rewritten, migrated
from tf_lso.migrate.consequences import MODULES

REWRITTEN = [
    pytest.param(
        "from tensorflow.keras import (\n"
        "    layers,\n"
        "    # about\n"
        "    mixed_precision  # the policy\n"
        ")\n"
        "mixed_precision.LossScaleOptimizer(o)\n",
        "from tensorflow.keras import (\n"
        "    layers,\n"
        "    # about\n"
        "      # the policy\n"
        ")\n"
        "from tf_lso.keras import mixed_precision\n"
        "mixed_precision.LossScaleOptimizer(o)\n",
        id="a comment after the last name",
    ),
    pytest.param(
        "from tensorflow.keras import (\n"
        "    mixed_precision,  # the policy\n"
        "    # what is trained\n"
        "    layers,\n"
        ")\n"
        "mixed_precision.LossScaleOptimizer(o)\n",
        "# the policy\n"
        "# what is trained\n"
        "from tensorflow.keras import (\n"
        "    layers,\n"
        ")\n"
        "from tf_lso.keras import mixed_precision\n"
        "mixed_precision.LossScaleOptimizer(o)\n",
        id="a comment of the next name",
    ),
    pytest.param(
        "from tensorflow.keras import (layers,\n"
        "    mixed_precision)  # the policy\n"
        "from tensorflow.keras import (mixed_precision as mp,  # again\n"
        "    a); x = 1  # end\n"
        "mixed_precision.LossScaleOptimizer(o)\n",
        "from tensorflow.keras import (layers,\n"
        "    )  # the policy\n"
        "from tf_lso.keras import mixed_precision\n"
        "# again\n"
        "from tensorflow.keras import (a); "
        "from tf_lso.keras import mixed_precision as mp; x = 1  # end\n"
        "mixed_precision.LossScaleOptimizer(o)\n",
        id="statements after the import in one line",
    ),
    pytest.param(
        'import keras as k\nx = "é€😀", k.mixed_precision.experimental.Policy\n',
        "import keras as k\n"
        "import tf_lso\n"
        'x = "é€😀", tf_lso.keras.mixed_precision.experimental.Policy\n',
        id="columns count characters, of one to four bytes",
    ),
]


@pytest.mark.parametrize(("before", "after"), REWRITTEN)
def test_rewritten(before, after):
    assert_rewritten(before, after)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.12 has this syntax")
def test_names_in_type_parameters_and_nested_f_strings_are_migrated():
    program = """\
import tensorflow as tf
type Opt = tf.keras.mixed_precision.LossScaleOptimizer
def f[T: tf.keras.mixed_precision.Policy](x: T) -> T: return x
class A[T: tf.keras.mixed_precision.Policy]: x: T
print(f"{tf.keras.mixed_precision.Policy("é")} {f"{tf.keras.mixed_precision}"}")
"""
    moved = program.replace("tf.", "tf_lso.")
    expected = moved.replace("as tf\n", "as tf\nimport tf_lso\n")
    assert migrated(program)[0] == expected


def test_all_old_names_of_a_module_have_one_new_module():
    """So one new import is enough for all names that move out of an old import."""
    for parent in {module.rpartition(".")[0] for module in MODULES}:
        new_modules = {MODULES[parent]} if parent in MODULES else set()
        for module, new_module in MODULES.items():
            if module.rpartition(".")[0] == parent:
                new_modules.add(new_module.rpartition(".")[0])
        assert len(new_modules) == 1, parent
