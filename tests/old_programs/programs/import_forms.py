# The fallbacks that libraries wrote to run on TF 2.0 - 2.10 alike.
# Written for TF 2.4 - 2.8.
import json

import tensorflow as tf
import tensorflow.compat.v1 as tfv1
import tensorflow.keras as keras
import tensorflow.keras.mixed_precision.experimental as mp
from tensorflow.keras import mixed_precision as prec
from tensorflow.python.keras.mixed_precision import loss_scale_optimizer as lso_lib
from tensorflow.python.training.experimental import loss_scale as loss_scale_module
from tensorflow.python.training.experimental.loss_scale import (
    DynamicLossScale,
    FixedLossScale,
)

try:
    from tensorflow.keras.mixed_precision import LossScaleOptimizer, set_global_policy

    old_style = False
except (ImportError, AttributeError):
    from tensorflow.keras.mixed_precision.experimental import (
        LossScaleOptimizer,
    )
    from tensorflow.keras.mixed_precision.experimental import (
        set_policy as set_global_policy,
    )

    old_style = True

try:
    experimental = tf.keras.mixed_precision.experimental
    has_experimental = True
except AttributeError:
    has_experimental = False

set_global_policy("mixed_float16")
name = prec.global_policy().name
set_global_policy("float32")
v = tf.Variable(1.0)
opts = [
    mp.LossScaleOptimizer(keras.optimizers.SGD(0.5), DynamicLossScale(16)),
    experimental.LossScaleOptimizer(keras.optimizers.SGD(0.5), FixedLossScale(4)),
    keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD(0.5)),
    tf.compat.v2.keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD(0.5)),
    LossScaleOptimizer(keras.optimizers.SGD(0.5), initial_scale=2.0),
]
scales = []
for opt in opts:
    opt.minimize(lambda: v * v, [v])
    scales.append(float(opt.loss_scale))
result = {
    "old_style": old_style,
    "has_experimental": has_experimental,
    "policy": name,
    "scales": scales,
    "v": float(v),
    "all": all(isinstance(o, LossScaleOptimizer) for o in opts),
    "get": float(loss_scale_module.get("dynamic")()),
    "v1": hasattr(tfv1.train.experimental, "DynamicLossScale"),
    "lib": hasattr(lso_lib, "LossScaleOptimizer"),
    "train": tf.train.experimental.FixedLossScale(3).get_config(),
}
print("RESULT", json.dumps(result))
