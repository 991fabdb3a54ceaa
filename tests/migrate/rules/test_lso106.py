"""LSO106: a guard that trains wrong, silently."""

import pytest

from tests.migrate.programs import assert_left_alone, assert_rewritten

LEFT_ALONE = [
    pytest.param(
        'if fp16 and hasattr(self.optimizer, "get_scaled_loss"):\n'
        "    loss = self.optimizer.get_scaled_loss(loss)\n",
        ["1:13 LSO106 wrong", "2:27 LSO105 (breaks)"],
        id="hasattr and more",
    ),
    pytest.param(
        'scale = getattr(opt, "get_scaled_loss", None)\n'
        'loss = getattr(opt, "get_scaled_loss", lambda x: x)(loss)\n',
        ["1:9 LSO106 wrong", "2:8 LSO106 wrong"],
        id="getattr with a default",
    ),
    pytest.param(
        "try:\n"
        "    loss = opt.get_scaled_loss(loss)\n"
        "except AttributeError:\n"
        "    pass\n"
        "try:\n"
        "    loss = opt.get_scaled_loss(loss)\n"
        "except:\n"
        "    loss = loss\n"
        "try:\n"
        '    scale = getattr(opt, "get_scaled_loss")\n'
        "except (TypeError, AttributeError):\n"
        "    scale = None\n",
        ["2:16 LSO105 (breaks)", "6:16 LSO105 (breaks)"],
        id="except",
    ),
    pytest.param(
        "def right(opt, loss):\n"
        '    if hasattr(opt, "get_scaled_loss"):\n'
        "        return opt.get_scaled_loss(loss)\n"
        "    return opt.scale_loss(loss)\n"
        "def wrong(opt, loss):\n"
        '    if hasattr(opt, "get_scaled_loss"):\n'
        "        return opt.get_scaled_loss(loss)\n"
        "    return loss\n",
        ["3:20 LSO105 (breaks)", "7:20 LSO105 (breaks)"],
        id="a branch for Keras 3 in another function",
    ),
    pytest.param(
        "def scaled(opt, loss):\n"
        "    try:\n"
        "        return opt.get_scaled_loss(loss)\n"
        "    except AttributeError:\n"
        '        return getattr(opt, "scale_loss")(loss)\n',
        ["3:20 LSO105 (breaks)"],
        id="does not train wrong: an except clause for Keras 3",
    ),
    pytest.param(
        "class Trainer:\n"
        "    def __init__(self, opt):\n"
        '        self.old = hasattr(opt, "get_scaled_loss")\n'
        "    def step(self, loss):\n"
        "        scale = self.opt.get_scaled_loss if self.old else self.opt.scale_loss\n",
        ["5:26 LSO105 breaks"],
        id="does not train wrong: a variable with the answer chooses a branch for Keras 3",
    ),
    pytest.param(
        'if not hasattr(opt, "get_scaled_loss"):\n'
        "    raise TypeError(opt)\n"
        'assert hasattr(opt, "get_unscaled_gradients")\n'
        "try:\n"
        "    loss = opt.get_scaled_loss(loss)\n"
        "except AttributeError as error:\n"
        '    raise RuntimeError("wrap it") from error\n',
        ["5:16 LSO105 (breaks)"],
        id="does not train wrong: a guard that raises",
    ),
    pytest.param(
        "import tf_lso\n"
        "opt = tf_lso.LossScaleOptimizer(opt)\n"
        'if hasattr(opt, "get_scaled_loss"):\n'
        "    loss = opt.get_scaled_loss(loss)\n",
        [],
        id="does not train wrong: tf_lso",
    ),
    pytest.param(
        "class Mine:\n"
        "    def get_scaled_loss(self, loss):\n"
        '        return loss if hasattr(self, "get_scaled_loss") else 0\n',
        [],
        id="does not train wrong: a class of the program",
    ),
    pytest.param(
        "import torch\n"
        "def scaled(opt, loss):\n"
        "    if hasattr(opt, 'get_scaled_loss'):\n"
        "        return opt.get_scaled_loss(loss)\n"
        "    return loss\n",
        [],
        id="torch",
    ),
]

REWRITTEN = [
    pytest.param(
        "import tensorflow as tf\n"
        "x = tf.keras.mixed_precision.LossScaleOptimizer(o)\n"
        "def scaled(opt, loss):\n"
        "    if hasattr(opt, 'get_scaled_loss'):\n"
        "        return opt.get_scaled_loss(loss)\n"
        "    return loss\n",
        "import tensorflow as tf\n"
        "import tf_lso\n"
        "x = tf_lso.keras.mixed_precision.LossScaleOptimizer(o)\n"
        "def scaled(opt, loss):\n"
        "    if hasattr(opt, 'get_scaled_loss'):\n"
        "        return opt.get_scaled_loss(loss)\n"
        "    return loss\n",
        id="a file that wraps by LossScaleOptimizer(o) does not: hasattr",
    ),
]


@pytest.mark.parametrize(("program", "found"), LEFT_ALONE)
def test_left_alone(program, found):
    assert_left_alone(program, found)


@pytest.mark.parametrize(("before", "after"), REWRITTEN)
def test_rewritten(before, after):
    assert_rewritten(before, after, rule="LSO106")
