"""LSO105: a method or attribute of the old optimizer."""

import pytest

from tests.migrate.programs import assert_left_alone, assert_rewritten

LEFT_ALONE = [
    pytest.param(
        "def step(opt, tape, loss):\n"
        "    scaled = opt.get_scaled_loss(loss)\n"
        "    grads = (self.model.optimizer\n"
        "             .get_unscaled_gradients(tape.gradient(scaled, v)))\n"
        "    return opt.dynamic_counter\n",
        ["2:18 LSO105 breaks", "4:15 LSO105 breaks", "5:16 LSO105 breaks"],
        id="anywhere",
    ),
    pytest.param(
        "import tensorflow as tf\n"
        "a = opt.loss_scale().numpy()\n"
        "b = opt._decayed_lr(tf.float32)\n"
        "c = self.loss_scale\n"
        "d = config.loss_scale\n"
        "e = model.optimizer.loss_scale\n"
        "f = opt.dynamic_growth_steps\n",
        ["3:9 LSO105 breaks"],
        id="called",
    ),
    pytest.param(
        "import tf_keras\n"
        "opt = tf_keras.mixed_precision.LossScaleOptimizer(inner)\n"
        "opt.get_scaled_loss(loss)\n"
        "opt.lr\n",
        ["3:5 LSO105 unsure"],
        id="tf_keras",
    ),
    pytest.param(
        "import tf_lso\n"
        "opt = tf_lso.keras.mixed_precision.LossScaleOptimizer(inner)\n"
        "opt.get_scaled_loss(loss)\n"
        "opt.loss_scale()\n"
        "def f(other):\n"
        "    other.get_scaled_loss(loss)\n",
        [],
        id="migrated",
    ),
    pytest.param(
        "import tensorflow as tf\n"
        "class Trainer:\n"
        "    def get_scaled_loss(self, loss):\n"
        "        return loss\n"
        "    def loss_scale(self):\n"
        "        return 1\n"
        "    def f(self):\n"
        "        return self.get_scaled_loss(self.loss_scale())\n"
        "Trainer().loss_scale()\n",
        [],
        id="own methods",
    ),
    pytest.param(
        "import tensorflow as tf\n"
        "class Mine(tf.keras.optimizers.Adam):\n"
        "    def update(self, v):\n"
        "        return self._decayed_lr(v.dtype)\n",
        ["4:21 LSO105 breaks"],
        id="_decayed_lr of an optimizer class",
    ),
    pytest.param(
        "from tensorflow.python.keras import layers\n"
        "import tensorflow as tf\n"
        "from tensorflow.python.keras.mixed_precision import loss_scale_optimizer as lso\n"
        "def step(model, loss):\n"
        "    if isinstance(model.optimizer, lso.LossScaleOptimizer):\n"
        "        loss = model.optimizer.get_scaled_loss(loss)\n"
        "    opt = lso.LossScaleOptimizer(model.optimizer)\n"
        "    return opt.get_scaled_loss(loss)\n",
        ["6:32 LSO105 breaks", "8:16 LSO105 breaks"],
        id="TensorFlow's own copy of Keras",
    ),
]

REWRITTEN = [
    pytest.param(
        "import tensorflow as tf\n"
        "def scale(opt, loss):\n"
        "    mp = tf.keras.mixed_precision.experimental\n"
        "    if isinstance(opt, mp.LossScaleOptimizer):\n"
        "        loss = opt.get_scaled_loss(loss)\n"
        "    return loss\n",
        "import tf_lso.installed  # noqa: F401\n"
        "import tensorflow as tf\n"
        "def scale(opt, loss):\n"
        "    mp = tf_lso.keras.mixed_precision.experimental\n"
        "    if isinstance(opt, mp.LossScaleOptimizer):\n"
        "        loss = opt.get_scaled_loss(loss)\n"
        "    return loss\n",
        id="a call after isinstance, as in tf-models-official 2.4",
    ),
    pytest.param(
        "import tensorflow as tf, tf_keras\n"
        "o = tf_keras.mixed_precision.LossScaleOptimizer(tf_keras.optimizers.Adam())\n"
        "tf.compat.v1.train.experimental.enable_mixed_precision_graph_rewrite(o)\n"
        "def step(optimizer, loss):\n"
        "    return optimizer.get_scaled_loss(loss)\n",
        "import tensorflow as tf, tf_keras\n"
        "import tf_lso\n"
        "o = tf_keras.mixed_precision.LossScaleOptimizer(tf_keras.optimizers.Adam())\n"
        "tf_lso.compat.v1.train.experimental.enable_mixed_precision_graph_rewrite(o)\n"
        "def step(optimizer, loss):\n"
        "    return optimizer.get_scaled_loss(loss)\n",
        id="an optimizer of tf_keras next to the graph rewrite",
    ),
]

# The third item has the uses that `migrate` lists.
REWRITTEN_IN_PART = [
    pytest.param(
        "import tensorflow as tf\n"
        "class Model(tf.keras.Model):\n"
        "    def train_step(self, data):\n"
        "        loss = self.optimizer.get_scaled_loss(self.loss(data))\n"
        "        return self.optimizer.get_unscaled_gradients(grads(loss))\n"
        "tf.keras.mixed_precision.experimental.Policy('float32')\n",
        "import tensorflow as tf\n"
        "import tf_lso\n"
        "class Model(tf.keras.Model):\n"
        "    def train_step(self, data):\n"
        "        loss = self.optimizer.get_scaled_loss(self.loss(data))\n"
        "        return self.optimizer.get_unscaled_gradients(grads(loss))\n"
        "tf_lso.keras.mixed_precision.experimental.Policy('float32')\n",
        ["4:31 LSO105", "5:31 LSO105"],
        id="an optimizer that is made elsewhere, next to a name that moves",
    ),
]


@pytest.mark.parametrize(("program", "found"), LEFT_ALONE)
def test_left_alone(program, found):
    assert_left_alone(program, found)


@pytest.mark.parametrize(("before", "after"), REWRITTEN)
def test_rewritten(before, after):
    assert_rewritten(before, after, rule="LSO105")


@pytest.mark.parametrize(("before", "after", "listed"), REWRITTEN_IN_PART)
def test_rewritten_in_part(before, after, listed):
    assert_rewritten(before, after, listed, rule="LSO105")
