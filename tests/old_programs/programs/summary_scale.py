# The loss scale goes to TensorBoard and to the log, by opt.loss_scale as a tensor.
# Written for TF 2.4 - 2.15.
import glob
import json
import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.keras import mixed_precision

mixed_precision.set_global_policy("mixed_float16")
folder = tempfile.mkdtemp()
writer = tf.summary.create_file_writer(folder)
opt = mixed_precision.LossScaleOptimizer(
    tf.keras.optimizers.Adam(), initial_scale=64, dynamic_growth_steps=2
)
v = tf.Variable([1.0])


@tf.function
def step(g):
    opt.apply_gradients([(g, v)])
    with writer.as_default():
        tf.summary.scalar("loss_scale", opt.loss_scale, step=opt.iterations)
        tf.summary.scalar("lr", opt.learning_rate, step=opt.iterations)
    return opt.loss_scale


metric = tf.keras.metrics.Mean("scale")
texts = []
for g in (1.0, 1.0, 1.0, np.inf):
    metric.update_state(step(tf.constant([g])))
    texts.append("%g" % opt.loss_scale)
writer.flush()
seen = []
for path in glob.glob(os.path.join(folder, "*")):
    for event in tf.compat.v1.train.summary_iterator(path):
        for value in event.summary.value:
            if value.tag == "loss_scale":
                seen.append([event.step, float(tf.make_ndarray(value.tensor))])
log2 = tf.math.log(opt.loss_scale) / tf.math.log(2.0)
result = {
    "scale_events": seen,
    "texts": texts,
    "format": "{:.1f}".format(opt.loss_scale.numpy()),
    "mean_scale": float(metric.result()),
    "log2": round(float(log2), 4),
    "is_tensor": tf.is_tensor(opt.loss_scale),
    "dtype": opt.loss_scale.dtype.name,
    "counter": int(opt.dynamic_counter),
}
print("RESULT", json.dumps(result))
