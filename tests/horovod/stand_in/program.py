"""Train with Horovod, with one order of wrapping, as programs for TensorFlow 2.4 did."""

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# `run_workers` describes the processes in TF_CONFIG, but Horovod needs other variables.
config = json.loads(os.environ.pop("TF_CONFIG"))
addresses = config["cluster"]["worker"]
os.environ["HOROVOD_RANK"] = str(config["task"]["index"])
os.environ["HOROVOD_SIZE"] = str(len(addresses))
os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"] = addresses[0].rpartition(":")[2]

# ruff: noqa: E402
import horovod.tensorflow as hvd_tf
import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf

order = sys.argv[1]
hvd.init()
mixed_precision = tf.keras.mixed_precision
mixed_precision.set_global_policy("mixed_float16")

rows = np.random.RandomState(hvd.rank()).rand(48, 3).astype("float32")
if hvd.rank() == hvd.size() - 1:
    rows[16:20] = 3e4  # one step of one process overflows
targets = rows.sum(1, keepdims=True) / (1 + rows.max())
data = tf.data.Dataset.from_tensor_slices((rows, targets)).batch(8)

model = tf.keras.Sequential(
    [
        tf.keras.layers.Dense(4, kernel_initializer="ones", input_shape=(3,)),
        tf.keras.layers.Dense(1, kernel_initializer="ones", dtype="float32"),
    ]
)
opt = tf.keras.optimizers.SGD(0.01, momentum=0.9)


def scaled(optimizer):
    return mixed_precision.LossScaleOptimizer(optimizer, initial_scale=1024.0)


if order.startswith("inside"):
    opt = scaled(hvd.DistributedOptimizer(opt))
elif order.startswith("outside"):
    opt = hvd.DistributedOptimizer(scaled(opt))
else:
    opt = scaled(opt)


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        scaled_loss = opt.get_scaled_loss(loss)
    tape = hvd_tf.DistributedGradientTape(tape, compression=hvd.Compression.none)
    gradients = tape.gradient(scaled_loss, model.trainable_variables)
    gradients = opt.get_unscaled_gradients(gradients)
    opt.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


if order == "tape":
    for number, (x, y) in enumerate(data):
        step(x, y)
        if number == 0:
            hvd_tf.broadcast_variables(model.variables, root_rank=0)
else:
    model.compile(opt, "mse")
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]
    model.fit(data, epochs=1, verbose=0, callbacks=callbacks)
    opt = model.optimizer


def rounded(values):
    return np.round(values.astype("float64"), 5).tolist()


slot = opt.get_slot(model.trainable_variables[0], "momentum")
result = {
    "weights": [rounded(w) for w in model.get_weights()],
    "slot": rounded(slot.numpy()),
    "scale": float(opt.loss_scale),
    "iterations": int(opt.iterations.numpy()),
}
print("RESULT", json.dumps(result))
