# Every way of printing, comparing and computing with the loss scale and the iterations.
# Written for TF 2.4 - 2.8.
import json
import math

import numpy as np
import tensorflow as tf

exp = tf.keras.mixed_precision.experimental
opts = {
    "stable": tf.keras.mixed_precision.LossScaleOptimizer(
        tf.keras.optimizers.Adam(), initial_scale=1024
    ),
    "experimental": exp.LossScaleOptimizer(tf.keras.optimizers.Adam(), 1024),
}
out = {}
for name, opt in opts.items():
    scale = opt.loss_scale
    logs = {"scale": scale}
    out[name] = [
        "%g|%.1f|%d" % (scale, scale, scale),
        "{:.2f}".format(float(scale)),
        f"{scale.numpy():g}",
        math.log2(scale),
        float(np.log2(scale)),
        int(scale),
        scale.numpy().item(),
        str(np.asarray(scale)),
        float(scale * 2 + 1),
        float(tf.cast(scale, tf.float16)),
        bool(scale > 512),
        float(tf.reduce_mean(tf.stack([scale, scale]))),
        round(logs["scale"].numpy().tolist(), 1),
        float(tf.maximum(scale, 2048.0)),
        tf.strings.as_string(tf.cast(scale, tf.int32)).numpy().decode(),
        int(opt.iterations) + 1,
        int(opt.iterations.numpy()),
        "%d" % opt.iterations,
        int(opt.iterations + 1),
    ]
print("RESULT", json.dumps(out))
