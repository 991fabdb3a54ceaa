# Two replicas, of which only the second meets a NaN: both skip. Then the replicas sum
# by themselves, and hand over aggregated gradients. Written for TF 2.4 - 2.10.
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import sys

import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
self_aggregated = "--aggregate" in sys.argv[1:]
with strategy.scope():
    v = tf.Variable([1.0, 1.0])
    opt = tf.keras.mixed_precision.LossScaleOptimizer(
        tf.keras.optimizers.SGD(0.25), initial_scale=16.0, dynamic_growth_steps=2
    )


def replica_fn(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(v * x)
        scaled = opt.get_scaled_loss(loss)
    grads = opt.get_unscaled_gradients(tape.gradient(scaled, [v]))
    if self_aggregated:
        context = tf.distribute.get_replica_context()
        grads = context.all_reduce(tf.distribute.ReduceOp.SUM, grads)
        grads, _ = tf.clip_by_global_norm(grads, 1e6)
        opt.apply_gradients(zip(grads, [v]), experimental_aggregate_gradients=False)
    else:
        opt.apply_gradients(zip(grads, [v]))
    return loss


@tf.function
def step(values):
    return strategy.run(replica_fn, args=(values,))


rows = []
for second in (1.0, np.nan, 1.0, 1.0):
    per_replica = strategy.experimental_distribute_values_from_function(
        lambda ctx, second=second: tf.constant(
            [1.0, 0.5] if ctx.replica_id_in_sync_group == 0 else [second, 0.5]
        )
    )
    step(per_replica)
    copies = [c.numpy().tolist() for c in strategy.experimental_local_results(v)]
    assert copies[0] == copies[1], copies
    rows.append([copies[0], float(opt.loss_scale)])
result = {
    "rows": rows,
    "iterations": int(opt.iterations.numpy()),
    "counter": int(opt.dynamic_counter.numpy()),
}
print("RESULT", json.dumps(result))
