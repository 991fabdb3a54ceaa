"""LSO103: a name that works as it did."""

import pytest

from tests.migrate.programs import assert_left_alone

LEFT_ALONE = [
    pytest.param(
        "from tensorflow.python.training.experimental import loss_scale as ls\n"
        "ls.DynamicLossScale()\n",
        [],
        id="tensorflow.python.training",
    ),
    pytest.param(
        "import tensorflow as tf\n"
        "tf.keras.mixed_precision.LossScaleOptimizerr(opt)\n"
        'tf.keras.mixed_precision.set_policy("mixed_float16")\n'
        "tf.keras.mixed_precision.__name__\n",
        [],
        id="names that never existed",
    ),
    pytest.param(
        "from keras import mixed_precision\nmixed_precision.set_dtype_policy('x')\n",
        [],
        id="Keras 3's policies",
    ),
    pytest.param(
        "import tf_keras\n"
        "from tf_keras.mixed_precision import LossScaleOptimizer\n"
        "tf_keras.mixed_precision.set_global_policy('x')\n",
        [],
        id="tf_keras",
    ),
    pytest.param(
        "import tensorflow as tf\nmp = tf.keras.mixed_precision\nmp.global_policy()\n",
        [],
        id="a module by alias",
    ),
]


@pytest.mark.parametrize(("program", "found"), LEFT_ALONE)
def test_left_alone(program, found):
    assert_left_alone(program, found)
