# The schedule of the Transformer tutorial, whose step is used as a float, and Adam with
# three more arguments. Written for TF 2.4 - 2.10.
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf


class CustomSchedule(tf.keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, d_model, warmup_steps=4000):
        super(CustomSchedule, self).__init__()
        self.d_model = tf.cast(d_model, tf.float32)
        self.warmup_steps = warmup_steps

    def __call__(self, step):
        arg1 = tf.math.rsqrt(step)
        arg2 = step * (self.warmup_steps**-1.5)
        return tf.math.rsqrt(self.d_model) * tf.math.minimum(arg1, arg2)


tf.keras.mixed_precision.set_global_policy("mixed_float16")
learning_rate = CustomSchedule(4, warmup_steps=4)
optimizer = tf.keras.mixed_precision.LossScaleOptimizer(
    tf.keras.optimizers.Adam(learning_rate, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
)
dense = tf.keras.layers.Dense(2, kernel_initializer="ones")
x = tf.constant(np.random.RandomState(0).rand(4, 3).astype("float32"))
dense.build(x.shape)


@tf.function
def train_step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.cast(dense(x), tf.float32)))
        scaled = optimizer.get_scaled_loss(loss)
    grads = optimizer.get_unscaled_gradients(
        tape.gradient(scaled, dense.trainable_variables)
    )
    optimizer.apply_gradients(zip(grads, dense.trainable_variables))
    return loss


losses = [round(float(train_step()), 3) for _ in range(6)]
result = {
    "losses": losses,
    "scale": float(optimizer.loss_scale),
    "iterations": int(optimizer.iterations),
    "lr": round(float(optimizer.inner_optimizer._decayed_lr("float32")), 5),
}
print("RESULT", json.dumps(result))
