# get_config, from_config, tf.keras.optimizers.serialize and deserialize of wrapped
# optimizers. Written for TF 2.4 - 2.8.
import json

import tensorflow as tf
from tensorflow.keras.mixed_precision import LossScaleOptimizer

opt = LossScaleOptimizer(
    tf.keras.optimizers.Adam(learning_rate=0.25, beta_2=0.5),
    initial_scale=128.0,
    dynamic_growth_steps=7,
)
config = opt.get_config()
again = LossScaleOptimizer.from_config(config)
fixed = LossScaleOptimizer(
    inner_optimizer=tf.keras.optimizers.SGD(0.5, momentum=0.25),
    dynamic=False,
    initial_scale=8,
)
fixed_again = LossScaleOptimizer.from_config(fixed.get_config())
dictionary = tf.keras.optimizers.serialize(opt)
third = tf.keras.optimizers.deserialize(
    dictionary, custom_objects={"LossScaleOptimizer": LossScaleOptimizer}
)
result = {
    "keys": sorted(k for k in config if k != "name"),
    "class_name": dictionary["class_name"].lower(),
    "inner_class": config["inner_optimizer"]["class_name"].lower(),
    "plain": {
        k: config[k] for k in ("dynamic", "initial_scale", "dynamic_growth_steps")
    },
    "again": [
        float(again.loss_scale),
        again.dynamic_growth_steps,
        float(again.learning_rate),
        float(again.beta_2),
    ],
    "third": [
        type(third).__name__,
        float(third.loss_scale),
        third.initial_scale,
        float(third.inner_optimizer.learning_rate),
    ],
    "fixed": [
        fixed_again.dynamic,
        float(fixed_again.loss_scale),
        fixed_again.dynamic_growth_steps,
        float(fixed_again.momentum),
    ],
    "inner_is_new": again.inner_optimizer is not opt.inner_optimizer,
}
print("RESULT", json.dumps(result))
