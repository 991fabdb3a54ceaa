"""If names move out of an import, no comment is lost, and the layout of the rest stays."""

import pytest

from tests.migrate.programs import assert_rewritten

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
