"""LSO102: a name that does something else."""

import pytest

from tests.migrate.programs import assert_left_alone, assert_rewritten

LEFT_ALONE = [
    pytest.param(
        "import keras\n"
        "keras.optimizers.LossScaleOptimizer(opt)\n"
        "keras.mixed_precision.set_global_policy('x')\n",
        [],
        id="Keras 3's own optimizer",
    ),
    pytest.param(
        "import tensorflow as tf\n"
        "opt = tf.keras.mixed_precision.LossScaleOptimizer(inner)\n"
        "loss = opt.scale_loss(loss)\n",
        [],
        id="Keras 3's protocol",
    ),
    pytest.param(
        "import tensorflow as tf\n"
        "tf.keras.mixed_precision.LossScaleOptimizer = Mine\n"
        "del tf.keras.mixed_precision\n",
        ["2:1 LSO102 breaks"],
        id="an assignment to the name",
    ),
    pytest.param(
        "from tensorflow.keras import mixed_precision as mp  # tf-lso: ignore\n"
        "opt = mp.LossScaleOptimizer(opt)\n",
        ["2:7 LSO102 breaks"],
        id="a silenced import stays, and its uses move",
    ),
]

REWRITTEN = [
    pytest.param(
        "import tensorflow as tf\n"
        "class Mine(tf.keras.mixed_precision.LossScaleOptimizer):\n"
        "    pass\n"
        "Mine(opt, 128)\n",
        "import tensorflow as tf\n"
        "import tf_lso\n"
        "class Mine(tf_lso.keras.mixed_precision.LossScaleOptimizer):\n"
        "    pass\n"
        "Mine(opt, 128)\n",
        id="a subclass has arguments of its own",
    ),
    pytest.param(
        "from tensorflow.python.training.experimental.mixed_precision import (\n"
        "    enable_mixed_precision_graph_rewrite_v1,\n"
        ")\n",
        "from tf_lso.train.experimental.mixed_precision import (\n"
        "    enable_mixed_precision_graph_rewrite_v1,\n"
        ")\n",
        id="a private name that has another public name",
    ),
    pytest.param(
        "import tensorflow as tf\n"
        "from tensorflow.keras import mixed_precision\n"
        'mixed_precision.set_global_policy("mixed_float16")\n'
        'model.compile("sgd", "mse")\n',
        "import tf_lso.installed  # noqa: F401\n"
        "import tensorflow as tf\n"
        "from tf_lso.keras import mixed_precision\n"
        'mixed_precision.set_global_policy("mixed_float16")\n'
        'model.compile("sgd", "mse")\n',
        id="compile under a policy",
    ),
]


@pytest.mark.parametrize(("program", "found"), LEFT_ALONE)
def test_left_alone(program, found):
    assert_left_alone(program, found)


@pytest.mark.parametrize(("before", "after"), REWRITTEN)
def test_rewritten(before, after):
    assert_rewritten(before, after, rule="LSO102")
