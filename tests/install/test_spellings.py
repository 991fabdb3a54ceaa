"""The spellings of old names in public code are found after `install()`.

`tests/old_programs` runs whole programs. Here are further ways in which programs spell the
names that newer versions of TensorFlow no longer have.
"""

import pytest

from tests import preloaded
from tests.generation import LEGACY_KERAS, needs_tf_keras
from tests.processes import run

# Each line is a statement that fails on TensorFlow 2.21 without `install()`.
SPELLINGS = """
from keras.src.mixed_precision import loss_scale_optimizer, policy
from keras.src.mixed_precision.loss_scale_optimizer import BaseLossScaleOptimizer
from tensorflow.keras.mixed_precision import experimental
from tensorflow.keras.mixed_precision.experimental import get_layer_policy, global_policy
from tensorflow.keras.mixed_precision.experimental import LossScaleOptimizer, Policy
from tensorflow.keras.mixed_precision.experimental import set_policy
from tensorflow.python.keras.mixed_precision.experimental import loss_scale_optimizer
from tensorflow.python.keras.mixed_precision.experimental import policy
from tensorflow.python.keras.mixed_precision.experimental.policy import Policy
loss_scale_optimizer.LossScaleOptimizer
policy.global_policy, policy.set_policy
tf.compat.v1.mixed_precision.DynamicLossScale
tf.keras.mixed_precision.experimental.LossScaleOptimizer.from_config
tf.keras.mixed_precision.experimental.Policy.from_config
tf.mixed_precision.experimental.DynamicLossScale
tf.mixed_precision.experimental.FixedLossScale
tf.mixed_precision.experimental.LossScale
tf.train.experimental.DynamicLossScale.from_config
tf.train.experimental.enable_mixed_precision_graph_rewrite
"""

# These statements need the Keras of their time.
SPELLINGS_LIKE_2_4 = """
from tensorflow.keras.layers.experimental import preprocessing
preprocessing.Normalization, preprocessing.Rescaling, preprocessing.TextVectorization
tf.compat.v1.keras.backend.set_session
tf.data.experimental.MapVectorizationOptions
tf.keras.experimental.CosineDecayRestarts, tf.keras.experimental.LinearModel
tf.keras.layers.experimental.SyncBatchNormalization
tf.keras.optimizers.SGD(lr=0.1, decay=0.5).decay
"""

PROGRAM = """
import tensorflow as tf
import tf_lso
tf_lso.install(like={like!r})
for line in {lines!r}.strip().splitlines():
    try:
        exec(line)
    except Exception as error:
        print(line, "#", error)
"""


def failures(lines, like, **variables):
    """Return the lines that fail, with their errors."""
    program = PROGRAM.format(lines=lines, like=like)
    return run(program, by=preloaded.run, **variables)


def test_each_spelling_is_found():
    assert failures(SPELLINGS, None) == []


@pytest.mark.slow
@needs_tf_keras
def test_each_spelling_of_2_4_is_found():
    variables = {"TF_USE_LEGACY_KERAS": LEGACY_KERAS}
    assert failures(SPELLINGS + SPELLINGS_LIKE_2_4, "2.4", **variables) == []
