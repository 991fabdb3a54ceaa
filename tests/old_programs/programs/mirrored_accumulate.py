# Accumulation under MirroredStrategy, with variables that are read by sum, a checkpoint
# that is restored in the scope, and tf.data distributed. Written for TF 2.4 - 2.10.
import json
import os
import tempfile

import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
tf.keras.mixed_precision.set_global_policy("mixed_float16")
path = os.path.join(tempfile.mkdtemp(), "ckpt")
x = np.random.RandomState(0).rand(24, 3).astype("float32")
x[14] *= 1e6
dataset = tf.data.Dataset.from_tensor_slices(x).batch(4)


def create():
    with strategy.scope():
        model = tf.keras.Sequential(
            [tf.keras.layers.Dense(2, kernel_initializer="ones")]
        )
        model.build((None, 3))
        opt = tf.keras.mixed_precision.LossScaleOptimizer(
            tf.keras.optimizers.SGD(0.1, momentum=0.5),
            initial_scale=1024,
            dynamic_growth_steps=2,
        )
        sums = [
            tf.Variable(
                tf.zeros(v.shape),
                trainable=False,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.SUM,
            )
            for v in model.trainable_variables
        ]
    return model, opt, sums


def train(model, opt, sums, batches):
    def collect(x):
        with tf.GradientTape() as tape:
            y = tf.cast(model(x, training=True), tf.float32)
            loss = tf.nn.compute_average_loss(
                tf.reduce_mean(y**2, axis=-1), global_batch_size=4
            )
            scaled = opt.get_scaled_loss(loss)
        grads = tape.gradient(scaled, model.trainable_variables)
        for s, g in zip(sums, opt.get_unscaled_gradients(grads)):
            s.assign_add(g)

    def apply():
        grads = [s.read_value() for s in sums]
        opt.apply_gradients(zip(grads, model.trainable_variables))
        for s in sums:
            s.assign(tf.zeros_like(s))

    run_collect = tf.function(lambda x: strategy.run(collect, args=(x,)))
    run_apply = tf.function(lambda: strategy.run(apply))
    for i, batch in enumerate(batches):
        run_collect(batch)
        if i % 2:
            run_apply()


model, opt, sums = create()
batches = list(strategy.experimental_distribute_dataset(dataset))
train(model, opt, sums, batches[:4])
saved = tf.train.Checkpoint(model=model, optimizer=opt).save(path)
at_break = [float(opt.loss_scale), int(opt.dynamic_counter.numpy())]
train(model, opt, sums, batches[4:])
model2, opt2, sums2 = create()
with strategy.scope():
    tf.train.Checkpoint(model=model2, optimizer=opt2).restore(saved)
train(model2, opt2, sums2, batches[4:])
result = {
    "at_break_scale": at_break,
    "scales": [float(opt.loss_scale), float(opt2.loss_scale)],
    "iterations": [int(o.iterations.numpy()) for o in (opt, opt2)],
    "same": bool(np.allclose(model.get_weights()[0], model2.get_weights()[0], 1e-4)),
    "kernel": np.round(model2.get_weights()[0][0], 3).tolist(),
}
print("RESULT", json.dumps(result))
