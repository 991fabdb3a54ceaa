# The model garden's grad_utils.minimize_using_explicit_allreduce: scaled gradients are
# summed over the replicas by hand, unscaled, clipped, and applied without aggregation.
# Written for TF 2.2 - 2.3.
import json

import numpy as np
import tensorflow as tf


def configure_optimizer(
    optimizer, use_float16=False, use_graph_rewrite=False, loss_scale="dynamic"
):
    if use_float16:
        optimizer = tf.keras.mixed_precision.experimental.LossScaleOptimizer(
            optimizer, loss_scale=loss_scale
        )
    if use_graph_rewrite:
        optimizer = tf.train.experimental.enable_mixed_precision_graph_rewrite(
            optimizer
        )
    return optimizer


def set_mixed_precision_policy(dtype, loss_scale=None):
    if dtype == tf.float16:
        policy = tf.keras.mixed_precision.experimental.Policy(
            "mixed_float16", loss_scale=loss_scale
        )
        tf.keras.mixed_precision.experimental.set_policy(policy)


def filter_and_allreduce(grads_and_vars, allreduce_precision="float32"):
    grads_and_vars = [(g, v) for g, v in grads_and_vars if g is not None]
    grads, variables = zip(*grads_and_vars)
    if allreduce_precision == "float16":
        grads = [tf.cast(grad, "float16") for grad in grads]
    context = tf.distribute.get_replica_context()
    allreduced = context.all_reduce(tf.distribute.ReduceOp.SUM, grads)
    if allreduce_precision == "float16":
        allreduced = [tf.cast(grad, "float32") for grad in allreduced]
    return allreduced, variables


def minimize_using_explicit_allreduce(tape, optimizer, loss, trainable_variables):
    if isinstance(optimizer, tf.keras.mixed_precision.experimental.LossScaleOptimizer):
        with tape:
            scaled_loss = optimizer.get_scaled_loss(loss)
        scaled_grads = tape.gradient(scaled_loss, trainable_variables)
        allreduced_scaled, variables = filter_and_allreduce(
            zip(scaled_grads, trainable_variables), allreduce_precision="float16"
        )
        allreduced = optimizer.get_unscaled_gradients(allreduced_scaled)
    else:
        grads = tape.gradient(loss, trainable_variables)
        allreduced, variables = filter_and_allreduce(zip(grads, trainable_variables))
    allreduced, _ = tf.clip_by_global_norm(allreduced, 1.0)
    optimizer.apply_gradients(
        zip(allreduced, variables), experimental_aggregate_gradients=False
    )


cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.experimental.set_virtual_device_configuration(
    cpu, [tf.config.experimental.VirtualDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
set_mixed_precision_policy(tf.float16, loss_scale="dynamic")
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones")])
    model.build((None, 3))
    scale = tf.mixed_precision.experimental.DynamicLossScale(2**10, increment_period=2)
    optimizer = configure_optimizer(
        tf.keras.optimizers.Adam(0.01), use_float16=True, loss_scale=scale
    )


def replica_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.cast(model(x), tf.float32) ** 2) / 4
    minimize_using_explicit_allreduce(tape, optimizer, loss, model.trainable_variables)
    return loss


@tf.function
def train_steps(iterator, steps):
    for _ in tf.range(steps):
        strategy.run(replica_step, args=(next(iterator),))


x = np.random.RandomState(0).rand(20, 3).astype("float32")
x[11] *= 1e6
dataset = strategy.experimental_distribute_dataset(
    tf.data.Dataset.from_tensor_slices(x).batch(4)
)
iterator = iter(dataset)
train_steps(iterator, tf.constant(2))
middle = float(optimizer.loss_scale())
train_steps(iterator, tf.constant(3))
result = {
    "middle_scale": middle,
    "end_scale": float(optimizer.loss_scale()),
    "iterations": int(optimizer.iterations.numpy()),
    "kernel": [round(float(k), 4) for k in model.get_weights()[0].ravel()],
}
print("RESULT", json.dumps(result))
