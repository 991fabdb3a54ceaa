"""Legacy mixed-precision loss scaling for today's TensorFlow and Keras.

The loss-scaling API of tf.keras 2.0-2.15 (`get_scaled_loss`,
`get_unscaled_gradients`, fixed and dynamic loss scales, hyperparameter delegation)
around the optimizers of Keras 3 and tf_keras, correct under `tf.distribute`.

Importing this package patches nothing and does not import tf_keras.
"""

from tf_lso import environment as _environment

_environment.require_tensorflow()

from tf_lso.optimizers import LossScaleOptimizer  # noqa: E402  after the check above
from tf_lso.scaling.loss_scale import (  # noqa: E402  after the check above
    DynamicLossScale,
    FixedLossScale,
    LossScale,
)

__version__ = "0.1.0"

__all__ = [
    "DynamicLossScale",
    "FixedLossScale",
    "LossScale",
    "LossScaleOptimizer",
    "__version__",
]
