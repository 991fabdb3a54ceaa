"""LSO108: a name that cannot be seen."""

import pytest

from tests.migrate.programs import assert_left_alone, assert_rewritten

LEFT_ALONE = [
    pytest.param(
        "from common import *\ntf.keras.mixed_precision.experimental.Policy\n",
        ["2:1 LSO108 unsure"],
        id="tf from a star",
    ),
    pytest.param(
        "import tensorflow as tf\n"
        "def f(tf, mp):\n"
        "    return tf.keras.mixed_precision.experimental.Policy\n",
        ["3:12 LSO108 unsure"],
        id="a parameter",
    ),
    pytest.param(
        "import tensorflow as tf\n"
        "def f():\n"
        "    def g():\n"
        "        return tf.keras.mixed_precision.experimental.Policy\n"
        "    tf = 1\n",
        ["4:16 LSO108 unsure"],
        id="a nested function",
    ),
    pytest.param(
        "from torch.cuda import amp as mixed_precision\n"
        "from my import mixed_precision as mp\n"
        "from apex import LossScaleOptimizer\n"
        "import jax.mixed_precision\n"
        "mixed_precision.experimental.Policy\n"
        'mp.experimental.LossScaleOptimizer(o, "dynamic")\n'
        'LossScaleOptimizer(o, "dynamic")\n'
        "jax.mixed_precision.experimental.Policy\n",
        ["6:1 LSO108 unsure"],
        id="other libraries",
    ),
    pytest.param(
        "from . import mixed_precision\n"
        "from .keras import mixed_precision as mp\n"
        "from .tensorflow.keras.mixed_precision import experimental\n"
        "from my.keras.mixed_precision.experimental import Policy\n"
        "mixed_precision.experimental.Policy\n"
        "mp.experimental.Policy\n"
        "experimental.Policy\n",
        ["5:1 LSO108 unsure", "6:1 LSO108 unsure", "7:1 LSO108 unsure"],
        id="own packages",
    ),
    pytest.param(
        "import tensorflow as tf\n"
        "tf = wrap(tf)\n"
        "tf.keras.mixed_precision.Policy('x')\n",
        ["3:1 LSO108 unsure"],
        id="a name bound again",
    ),
    pytest.param(
        "from tensorflow.keras import mixed_precision as mp\n"
        "match packages:\n"
        "    case [mp, *rest]:\n"
        "        mp.experimental.Policy('mixed_float16')\n",
        ["4:9 LSO108 unsure"],
        id="a name that a pattern binds",
    ),
    pytest.param(
        "class A:\n"
        "    import tensorflow as tf\n"
        "    def f(self):\n"
        "        return tf.keras.mixed_precision.Policy('x')\n",
        ["4:16 LSO108 unsure"],
        id="bound where it is not seen",
    ),
    pytest.param(
        "from tensorflow.keras import mixed_precision\n"
        "class T:\n"
        "    a = mixed_precision\n"
        "    mixed_precision = a\n"
        "    p = mixed_precision.experimental.Policy\n",
        ["5:9 LSO108 unsure"],
        id="two names of a class that are bound to one another",
    ),
    pytest.param(
        "from tensorflow.keras import *\n"
        'mixed_precision.experimental.set_policy("float32")\n',
        ["2:1 LSO108 unsure"],
        id="a module that a star may bring",
    ),
    pytest.param(
        "from fastai import mixed_precision\n"
        'mixed_precision.Policy("float32")\n'
        "import tensorflow as tf\n",
        [],
        id="mixed_precision of another package",
    ),
    pytest.param(
        "try:\n"
        "    from tensorflow import keras\n"
        "except ImportError:\n"
        "    import keras\n"
        'print(keras.mixed_precision.experimental.Policy("mixed_float16").name)\n',
        ["5:7 LSO108 unsure"],
        id="two ways to keras",
    ),
    pytest.param(
        "from mylib.compat import tf\n"
        "import pkg\n"
        'tf.keras.mixed_precision.experimental.set_policy("float32")\n'
        'pkg.tf.keras.mixed_precision.experimental.set_policy("float32")\n'
        "pkg.tf.train.experimental.FixedLossScale(8)\n"
        "other = pkg.tf\n"
        'other.keras.mixed_precision.experimental.set_policy("float32")\n',
        [
            "3:1 LSO108 unsure",
            "4:1 LSO108 unsure",
            "5:1 LSO108 unsure",
            "7:1 LSO108 unsure",
        ],
        id="TensorFlow from another file of the program",
    ),
    pytest.param(
        "import tensorflow as tf\n"
        "class C:\n"
        "    mp = tf.keras.mixed_precision\n"
        'C.mp.experimental.set_policy("float32")\n'
        "print(C.mp.experimental.global_policy().name)\n",
        ["4:1 LSO108 unsure", "5:7 LSO108 unsure"],
        id="a module of a class whose name works today",
    ),
]

# The third item has the uses that `migrate` lists.
REWRITTEN_IN_PART = [
    pytest.param(
        "import tensorflow as tf\n"
        "mp, train = tf.keras.mixed_precision, tf.train\n"
        'mp.experimental.set_policy("float32")\n'
        "train.experimental.enable_mixed_precision_graph_rewrite(opt)\n"
        "one = tf.keras.mixed_precision if old else None\n"
        'one.experimental.Policy("float32")\n'
        "for each in [tf.mixed_precision]:\n"
        "    each.experimental.DynamicLossScale()\n"
        "def f(mp):\n"
        "    return mp.experimental.global_policy()\n"
        'modules["mp"].experimental.get_layer_policy(layer)\n'
        "self.experimental.step(1)\n"
        "mp.experimental.set_visible_devices([])\n",
        "import tensorflow as tf\n"
        "import tf_lso\n"
        "mp, train = tf_lso.keras.mixed_precision, tf.train\n"
        'mp.experimental.set_policy("float32")\n'
        "train.experimental.enable_mixed_precision_graph_rewrite(opt)\n"
        "one = tf_lso.keras.mixed_precision if old else None\n"
        'one.experimental.Policy("float32")\n'
        "for each in [tf_lso.mixed_precision]:\n"
        "    each.experimental.DynamicLossScale()\n"
        "def f(mp):\n"
        "    return mp.experimental.global_policy()\n"
        'modules["mp"].experimental.get_layer_policy(layer)\n'
        "self.experimental.step(1)\n"
        "mp.experimental.set_visible_devices([])\n",
        [
            "3:1 LSO108",
            "4:1 LSO108",
            "6:1 LSO108",
            "8:5 LSO108",
            "10:12 LSO108",
            "11:1 LSO108",
        ],
        id="a name that is bound by a tuple, a condition, a loop, a parameter or an object",
    ),
    pytest.param(
        "import tensorflow as tf\n"
        "mp: Any = tf.keras.mixed_precision\n"
        'mp.experimental.set_policy("float32")\n'
        "if train := tf.train.experimental:\n"
        "    train.FixedLossScale(8)\n"
        "(xp := tf.keras.mixed_precision.experimental).global_policy()\n",
        "import tensorflow as tf\n"
        "import tf_lso\n"
        "mp: Any = tf_lso.keras.mixed_precision\n"
        'mp.experimental.set_policy("float32")\n'
        "if train := tf.train.experimental:\n"
        "    train.FixedLossScale(8)\n"
        "(xp := tf_lso.keras.mixed_precision.experimental).global_policy()\n",
        ["3:1 LSO108", "5:5 LSO108"],
        id="names that are bound by an annotated assignment and by :=",
    ),
]


@pytest.mark.parametrize(("program", "found"), LEFT_ALONE)
def test_left_alone(program, found):
    assert_left_alone(program, found)


@pytest.mark.parametrize(("before", "after", "listed"), REWRITTEN_IN_PART)
def test_rewritten_in_part(before, after, listed):
    assert_rewritten(before, after, listed, rule="LSO108")
