"""LSO111: files of older versions that are read."""

import pytest

from tests.migrate.programs import assert_left_alone, assert_rewritten

LEFT_ALONE = [
    pytest.param(
        "import keras\n"
        "opt = keras.optimizers.get('adam')\n"
        "model.load_weights('layers.h5')\n"
        "opt.get_scaled_loss(x)\n",
        ["4:5 LSO105 breaks"],
        id="an optimizer by its name, and a file with the weights of layers",
    ),
    pytest.param(
        "import keras\nmodel = keras.models.load_model(path)\n",
        [],
        id="a file without loss scaling",
    ),
]

REWRITTEN = [
    pytest.param(
        "import tensorflow as tf\n"
        "from tensorflow.keras.mixed_precision import experimental as mp\n"
        'objects = {"LossScaleOptimizer": mp.LossScaleOptimizer}\n'
        'loaded = tf.keras.models.load_model("model.h5", custom_objects=objects)\n',
        "import tf_lso.installed  # noqa: F401\n"
        "import tensorflow as tf\n"
        "from tf_lso.keras.mixed_precision import experimental as mp\n"
        'objects = {"LossScaleOptimizer": mp.LossScaleOptimizer}\n'
        'loaded = tf.keras.models.load_model("model.h5", custom_objects=objects)\n',
        id="custom objects",
    ),
]


@pytest.mark.parametrize(("program", "found"), LEFT_ALONE)
def test_left_alone(program, found):
    assert_left_alone(program, found)


@pytest.mark.parametrize(("before", "after"), REWRITTEN)
def test_rewritten(before, after):
    assert_rewritten(before, after, rule="LSO111")
