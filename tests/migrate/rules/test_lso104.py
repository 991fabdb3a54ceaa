"""LSO104: arguments that today's class refuses or misreads."""

import pytest

from tests.migrate.programs import assert_left_alone, assert_rewritten

LEFT_ALONE = [
    pytest.param(
        "from keras.mixed_precision import LossScaleOptimizer\n"
        "opt = LossScaleOptimizer(inner, 1024.0)\n",
        [],
        id="Keras 3's form of the constructor",
    ),
    pytest.param(
        "import tensorflow as tf\n"
        "tf.keras.mixed_precision.LossScaleOptimizer(opt, loss_scale='dynamic')\n",
        ["2:1 LSO104 breaks"],
        id="a keyword that no version of the stable class accepted",
    ),
]

# The third item has the uses that `migrate` lists.
REWRITTEN_IN_PART = [
    pytest.param(
        "import tensorflow as tf\n"
        "from tensorflow.keras.mixed_precision import LossScaleOptimizer, Policy\n"
        "LossScaleOptimizer(inner_optimizer=opt)\n"
        "LossScaleOptimizer(opt, initial_scale=2.0**10)\n"
        "LossScaleOptimizer(*args)\n"
        "LossScaleOptimizer(opt, 'dynamic')\n"
        "LossScaleOptimizer(opt, 128)\n"
        "LossScaleOptimizer(opt, False, 128)\n"
        "LossScaleOptimizer(opt, loss_scale='dynamic')\n"
        "LossScaleOptimizer(opt, tf.train.experimental.FixedLossScale(8))\n"
        "LossScaleOptimizer(opt, dynamic=flag)\n"
        "LossScaleOptimizer(optimizer=opt)\n"
        "Policy('mixed_float16')\n"
        "Policy('mixed_float16', loss_scale='dynamic')\n",
        "import tensorflow as tf\n"
        "from tf_lso.keras.mixed_precision import LossScaleOptimizer, Policy\n"
        "import tf_lso\n"
        "LossScaleOptimizer(inner_optimizer=opt)\n"
        "LossScaleOptimizer(opt, initial_scale=2.0**10)\n"
        "LossScaleOptimizer(*args)\n"
        "LossScaleOptimizer(opt, 'dynamic')\n"
        "LossScaleOptimizer(opt, 128)\n"
        "LossScaleOptimizer(opt, False, 128)\n"
        "LossScaleOptimizer(opt, loss_scale='dynamic')\n"
        "LossScaleOptimizer(opt, tf_lso.train.experimental.FixedLossScale(8))\n"
        "LossScaleOptimizer(opt, dynamic=flag)\n"
        "LossScaleOptimizer(optimizer=opt)\n"
        "Policy('mixed_float16')\n"
        "Policy('mixed_float16', loss_scale='dynamic')\n",
        ["6:1 LSO104", "7:1 LSO104", "9:1 LSO104", "10:1 LSO104", "14:1 LSO104"],
        id="calls of the stable classes, by name",
    ),
]


@pytest.mark.parametrize(("program", "found"), LEFT_ALONE)
def test_left_alone(program, found):
    assert_left_alone(program, found)


@pytest.mark.parametrize(("before", "after", "listed"), REWRITTEN_IN_PART)
def test_rewritten_in_part(before, after, listed):
    assert_rewritten(before, after, listed, rule="LSO104")
