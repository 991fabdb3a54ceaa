# What wrong calls raised, which programs caught. Written for TF 2.4 - 2.8.
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf
from tensorflow.keras import mixed_precision as mp

LSO = mp.LossScaleOptimizer
SGD = tf.keras.optimizers.SGD
V1 = mp.experimental.LossScaleOptimizer
v = tf.Variable(1.0)


def error(f):
    try:
        f()
    except Exception as e:
        return type(e).__name__
    return "none"


out = {
    "twice": error(lambda: LSO(LSO(SGD()))),
    "no_optimizer": error(lambda: LSO("sgd")),
    "number_as_dynamic": error(lambda: LSO(SGD(), 1024)),
    "fixed_without_scale": error(lambda: LSO(SGD(), dynamic=False)),
    "fixed_with_steps": error(lambda: LSO(SGD(), False, 8, 100)),
    "v1_none": error(lambda: V1(SGD(), None)),
    "v1_text": error(lambda: V1(SGD(), "static")),
    "policy_name": error(lambda: mp.set_global_policy("mixed_float17")),
    "policy_int": error(lambda: mp.set_global_policy("int32")),
    "policy_type": error(lambda: mp.Policy(tf.float16)),
    "v1_policy_scale": error(
        lambda: mp.experimental.Policy("mixed_float16", loss_scale="none")
    ),
    "missing": error(lambda: LSO(SGD()).no_such_thing),
    "no_gradients": error(lambda: LSO(SGD()).apply_gradients([(None, v)])),
    "epsilon": error(lambda: LSO(tf.keras.optimizers.Adam()).epsilon),
    "dynamic_set": error(lambda: setattr(LSO(SGD()), "dynamic", False)),
    "scale_set": error(lambda: setattr(LSO(SGD()), "loss_scale", 2.0)),
}
print("RESULT", json.dumps(out))
