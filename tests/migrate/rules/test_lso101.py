"""LSO101: a name that is gone."""

import pytest

from tests.migrate.programs import assert_left_alone, assert_rewritten

LEFT_ALONE = [
    pytest.param(
        '"""tf.keras.mixed_precision.experimental.Policy"""\n'
        "# from tensorflow.keras.mixed_precision import experimental\n"
        's = "tf.keras.mixed_precision.experimental.Policy"\n',
        [],
        id="text",
    ),
    pytest.param(
        "import tensorflow as tf\n"
        "def f(getattr):\n"
        '    getattr(tf.keras.optimizers, "mixed_precision")\n',
        [],
        id="hidden builtin",
    ),
    pytest.param(
        "from tensorflow.python.keras.mixed_precision.experimental import other\n"
        "from tensorflow.keras.mixed_precision import unknown\n",
        ["1:66 LSO101 breaks"],
        id="an unknown name of a module that is gone",
    ),
    pytest.param(
        "from tensorflow.keras.mixed_precision.experimental import *\n"
        "set_policy('mixed_float16')\n",
        ["1:59 LSO101 breaks"],
        id="a star",
    ),
    pytest.param(
        "import keras\n"
        "x = (keras.src.  # why\n"
        "  mixed_precision.policy)\n"
        "y = (keras.  # why\n"
        "  src.mixed_precision.policy.Policy)\n",
        ["2:6 LSO101 breaks", "4:6 LSO101 breaks"],
        id="a comment within a name",
    ),
    pytest.param(
        "import tensorflow as tf\ngetattr(tf, name)\n", [], id="any name of TensorFlow"
    ),
]

REWRITTEN = [
    pytest.param(
        "from tensorflow.train.experimental import DynamicLossScale, PythonState\n",
        "from tensorflow.train.experimental import PythonState\n"
        "from tf_lso.train.experimental import DynamicLossScale\n",
        id="a name next to others of its module",
    ),
    pytest.param(
        "from tf_keras.mixed_precision import experimental\n",
        "from tf_lso.keras.mixed_precision import experimental\n",
        id="tf_keras never had the experimental module",
    ),
    pytest.param(
        "import tensorflow as tf\n"
        "(tf.keras\n"
        "   .mixed_precision\n"
        '   .experimental.set_policy("mixed_float16"))\n',
        "import tensorflow as tf\n"
        "import tf_lso\n"
        '(tf_lso.keras.mixed_precision.experimental.set_policy("mixed_float16"))\n',
        id="over several lines",
    ),
    pytest.param(
        "import tensorflow as tf\n"
        'mp = getattr(tf.keras.mixed_precision, "experimental")\n'
        'old = getattr(tf.keras.mixed_precision, "experimental", None)\n',
        "import tensorflow as tf\n"
        "import tf_lso\n"
        "mp = tf_lso.keras.mixed_precision.experimental\n"
        'old = getattr(tf_lso.keras.mixed_precision, "experimental", None)\n',
        id="a name that getattr looks up",
    ),
    pytest.param(
        "import importlib\n"
        "from importlib import import_module\n"
        'mp = importlib.import_module("tensorflow.keras.mixed_precision.experimental")\n'
        "mp = import_module('tensorflow.keras.mixed_precision.experimental')\n"
        'mp = __import__("keras.mixed_precision.experimental")\n'
        'mp = importlib.import_module(f"{name}.mixed_precision.experimental")\n',
        "import importlib\n"
        "from importlib import import_module\n"
        'mp = importlib.import_module("tf_lso.keras.mixed_precision.experimental")\n'
        'mp = import_module("tf_lso.keras.mixed_precision.experimental")\n'
        'mp = __import__("tf_lso.keras.mixed_precision.experimental")\n'
        'mp = importlib.import_module(f"{name}.mixed_precision.experimental")\n',
        id="a module that import_module looks up",
    ),
    pytest.param(
        "import tensorflow.compat.v1 as tf\n"
        "scale = tf.train.experimental.FixedLossScale(4)\n"
        'print(tf.keras.mixed_precision.experimental.Policy("float32").name)\n'
        "print(tf.compat.v2.mixed_precision.experimental.DynamicLossScale().multiplier)\n",
        "import tensorflow.compat.v1 as tf\n"
        "import tf_lso\n"
        "scale = tf_lso.compat.v1.train.experimental.FixedLossScale(4)\n"
        'print(tf_lso.compat.v1.keras.mixed_precision.experimental.Policy("float32").name)\n'
        "print(tf_lso.compat.v2.mixed_precision.experimental.DynamicLossScale().multiplier)\n",
        id="compat v1 as tf",
    ),
    pytest.param(
        "import tensorflow.keras.mixed_precision.experimental\n"
        'p = tensorflow.keras.mixed_precision.experimental.Policy("mixed_float16")\n'
        "print(tensorflow.constant(1).dtype.name, p.loss_scale)\n",
        "import tensorflow\n"
        "import tf_lso\n"
        'p = tf_lso.keras.mixed_precision.experimental.Policy("mixed_float16")\n'
        "print(tensorflow.constant(1).dtype.name, p.loss_scale)\n",
        id="import without as",
    ),
    pytest.param(
        "import os, tensorflow.keras.mixed_precision.experimental as mp, sys\n"
        'print(mp.Policy("mixed_float16").name, os.sep, sys.maxsize > 0)\n',
        "import os, tf_lso.keras.mixed_precision.experimental as mp, sys\n"
        'print(mp.Policy("mixed_float16").name, os.sep, sys.maxsize > 0)\n',
        id="import next to others",
    ),
    pytest.param(
        "from keras.src.mixed_precision import loss_scale_optimizer as lso\n"
        "from keras.src.mixed_precision.policy import PolicyV1\n"
        "import keras.src.mixed_precision.policy as policy_lib\n"
        'print(lso.LossScaleOptimizerV3.__name__, PolicyV1("mixed_float16").loss_scale)\n'
        "print(policy_lib.global_policy().name)\n",
        "from tf_lso.keras.mixed_precision import loss_scale_optimizer as lso\n"
        "from tf_lso.keras.mixed_precision.policy import PolicyV1\n"
        "import tf_lso.keras.mixed_precision.policy as policy_lib\n"
        'print(lso.LossScaleOptimizerV3.__name__, PolicyV1("mixed_float16").loss_scale)\n'
        "print(policy_lib.global_policy().name)\n",
        id="private modules of keras",
    ),
    pytest.param(
        "import tensorflow as tf\n"
        "experimental = tf.train.experimental\n"
        "train = tf.train\n"
        "scale = experimental.DynamicLossScale(initial_loss_scale=4)\n"
        "print(float(scale()), isinstance(scale, train.experimental.LossScale))\n"
        "print(train.Checkpoint.__name__)\n",
        "import tensorflow as tf\n"
        "import tf_lso\n"
        "experimental = tf.train.experimental\n"
        "train = tf.train\n"
        "scale = tf_lso.train.experimental.DynamicLossScale(initial_loss_scale=4)\n"
        "print(float(scale()), isinstance(scale, tf_lso.train.experimental.LossScale))\n"
        "print(train.Checkpoint.__name__)\n",
        id="train experimental, kept in a variable",
    ),
    pytest.param(
        "import tf_lso\n"
        "import tensorflow as tf\n"
        'print(tf.keras.mixed_precision.experimental.Policy("float32").name)\n'
        "print(tf.constant(1).numpy(), tf_lso.__name__)\n",
        "import tf_lso\n"
        "import tensorflow as tf\n"
        'print(tf_lso.keras.mixed_precision.experimental.Policy("float32").name)\n'
        "print(tf.constant(1).numpy(), tf_lso.__name__)\n",
        id="tf_lso is imported already",
    ),
    pytest.param(
        "from typing import TYPE_CHECKING\n"
        "import tensorflow as tf\n"
        "if TYPE_CHECKING:\n"
        "    import tf_lso\n"
        'print(tf.keras.mixed_precision.experimental.Policy("float32").name)\n',
        "from typing import TYPE_CHECKING\n"
        "import tensorflow as tf\n"
        "import tf_lso\n"
        "if TYPE_CHECKING:\n"
        "    import tf_lso\n"
        'print(tf_lso.keras.mixed_precision.experimental.Policy("float32").name)\n',
        id="tf_lso that is imported for types only",
    ),
    pytest.param(
        '"""Doc""" " more"\n'
        "from __future__ import annotations\n"
        "import tensorflow as tf\n"
        'print(tf.keras.mixed_precision.experimental.Policy("float32").name)\n',
        '"""Doc""" " more"\n'
        "from __future__ import annotations\n"
        "import tensorflow as tf\n"
        "import tf_lso\n"
        'print(tf_lso.keras.mixed_precision.experimental.Policy("float32").name)\n',
        id="a docstring of two strings before an import of the future",
    ),
]


@pytest.mark.parametrize(("program", "found"), LEFT_ALONE)
def test_left_alone(program, found):
    assert_left_alone(program, found)


@pytest.mark.parametrize(("before", "after"), REWRITTEN)
def test_rewritten(before, after):
    assert_rewritten(before, after, rule="LSO101")
