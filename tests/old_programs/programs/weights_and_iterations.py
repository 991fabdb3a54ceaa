# Optimizer state by hand: iterations.assign, variables(), weights, get_weights and
# set_weights, get_slot. Written for TF 2.4 - 2.10.
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import pickle
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.keras import mixed_precision


def make():
    return mixed_precision.LossScaleOptimizer(
        tf.keras.optimizers.SGD(0.1, momentum=0.9), initial_scale=8.0
    )


v = tf.Variable([1.0, 2.0])
opt = make()
opt.iterations.assign(41)
opt.apply_gradients([(tf.constant([1.0, -1.0]), v)])
momentum = opt.get_slot(v, "momentum").numpy()
path = os.path.join(tempfile.mkdtemp(), "optimizer.pkl")
with open(path, "wb") as f:
    pickle.dump(opt.get_weights(), f)

u = tf.Variable(v)
other = make()
other.apply_gradients([(tf.zeros_like(u), u)])  # creates the slots
with open(path, "rb") as f:
    other.set_weights(pickle.load(f))
for o, w in ((opt, v), (other, u)):
    o.apply_gradients([(tf.constant([1.0, 1.0]), w)])
shapes = sorted(str(tuple(w.shape)) for w in opt.inner_optimizer.get_weights())
result = {
    "iterations": [int(opt.iterations.numpy()), int(other.iterations.numpy())],
    "v": np.round(v.numpy(), 5).tolist(),
    "u": np.round(u.numpy(), 5).tolist(),
    "momentum": np.round(momentum, 5).tolist(),
    "has_momentum": "(2,)" in shapes,
    "variables": len(opt.variables()) >= 2,
    "weights": len(opt.weights) >= 2,
    "slots": opt.get_slot_names(),
    "scale": float(opt.loss_scale),
}
print("RESULT", json.dumps(result))
