"""LSO109: an old argument or method of a bare optimizer."""

import pytest

from tests.migrate.programs import assert_left_alone, assert_rewritten

LEFT_ALONE = [
    pytest.param(
        "import keras\n"
        "inner = keras.optimizers.Adam()\n"
        "inner.lr = 0.5\n"
        "inner.get_scaled_loss(x)\n"
        "inner.aggregate_gradients(pairs)\n"
        "inner.variables(), inner.variables\n",
        [
            "3:7 LSO109 wrong",
            "4:7 LSO105 breaks",
            "5:7 LSO109 breaks",
            "6:7 LSO109 breaks",
        ],
        id="attributes of a bare optimizer",
    ),
    pytest.param(
        "import tensorflow as tf\n"
        "inner = tf.keras.optimizers.Adam()\n"
        'print(inner.get_slot_names(), inner.lr(3), "mixed_precision")\n',
        [],
        id="an old method of a bare optimizer in a file without loss scaling",
    ),
    pytest.param(
        "import keras\n"
        "inner = keras.optimizers.SGD(0.1, decay=0.01)\n"
        "inner.get_scaled_loss(x)\n",
        ["2:35 LSO109 wrong", "3:7 LSO105 breaks"],
        id="decay is ignored with a warning",
    ),
    pytest.param(
        "import tensorflow as tf\nopt = tf.keras.optimizers.SGD(lr=0.1)\n",
        [],
        id="without an old name nothing is added",
    ),
]

# The third item has the uses that `migrate` lists.
REWRITTEN_IN_PART = [
    pytest.param(
        "import tensorflow as tf\n"
        "opt = tf.keras.mixed_precision.LossScaleOptimizer(inner)\n"
        "bare = tf.keras.optimizers.SGD(schedule)\n"
        "opt.lr(step), model.disc_opt.learning_rate(opt.iterations), bare.lr(step)\n"
        "scheduler.lr(step), options.lr(step), opt.lr.numpy(), self.learning_rate(step)\n"
        "rate = opt.lr(step) if callable(opt.lr) else opt.lr\n",
        "import tensorflow as tf\n"
        "import tf_lso\n"
        "opt = tf_lso.keras.mixed_precision.LossScaleOptimizer(inner)\n"
        "bare = tf.keras.optimizers.SGD(schedule)\n"
        "opt.lr(step), model.disc_opt.learning_rate(opt.iterations), bare.lr(step)\n"
        "scheduler.lr(step), options.lr(step), opt.lr.numpy(), self.learning_rate(step)\n"
        "rate = opt.lr(step) if callable(opt.lr) else opt.lr\n",
        ["4:5 LSO109", "4:30 LSO109", "4:66 LSO109"],
        id="a learning rate that is called",
    ),
    pytest.param(
        "import tensorflow as tf\n"
        "decays = tf.keras.optimizers.SGD(0.1, decay=0.01)\n"
        "both = tf.keras.optimizers.SGD(lr=0.1, learning_rate=0.2)\n"
        "opt = tf.keras.mixed_precision.LossScaleOptimizer(decays)\n",
        "import tensorflow as tf\n"
        "import tf_lso\n"
        "decays = tf.keras.optimizers.SGD(0.1, decay=0.01)\n"
        "both = tf.keras.optimizers.SGD(lr=0.1, learning_rate=0.2)\n"
        "opt = tf_lso.keras.mixed_precision.LossScaleOptimizer(decays)\n",
        ["2:39 LSO109", "3:32 LSO109"],
        id="decay, and lr next to learning_rate",
    ),
    pytest.param(
        "import tensorflow as tf\n"
        "inner = tf.keras.optimizers.Adam()\n"
        "opt = tf.keras.mixed_precision.LossScaleOptimizer(inner)\n"
        "print(inner.get_slot_names(), opt.get_slot_names(), other.get_slot_names())\n"
        "inner.lr = 0.5\n"
        "inner.get_scaled_loss(loss)\n"
        "opt.get_scaled_loss(loss)\n"
        "both = tf.keras.optimizers.Adam()\n"
        "both = tf.keras.mixed_precision.LossScaleOptimizer(both)\n"
        "both.get_weights()\n",
        "import tensorflow as tf\n"
        "import tf_lso\n"
        "inner = tf.keras.optimizers.Adam()\n"
        "opt = tf_lso.keras.mixed_precision.LossScaleOptimizer(inner)\n"
        "print(inner.get_slot_names(), opt.get_slot_names(), other.get_slot_names())\n"
        "inner.lr = 0.5\n"
        "inner.get_scaled_loss(loss)\n"
        "opt.get_scaled_loss(loss)\n"
        "both = tf.keras.optimizers.Adam()\n"
        "both = tf_lso.keras.mixed_precision.LossScaleOptimizer(both)\n"
        "both.get_weights()\n",
        ["4:13 LSO109", "5:7 LSO109", "6:7 LSO105"],
        id="an old method of a bare optimizer next to lines that move",
    ),
]


@pytest.mark.parametrize(("program", "found"), LEFT_ALONE)
def test_left_alone(program, found):
    assert_left_alone(program, found)


@pytest.mark.parametrize(("before", "after", "listed"), REWRITTEN_IN_PART)
def test_rewritten_in_part(before, after, listed):
    assert_rewritten(before, after, listed, rule="LSO109")
