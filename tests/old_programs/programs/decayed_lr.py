# Schedules, also of one's own with warmup, and _decayed_lr to log the learning rate.
# One step is skipped, and counts. Written for TF 2.4 - 2.10.
import json

import tensorflow as tf


class WarmUp(tf.keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, initial_learning_rate, decay_schedule_fn, warmup_steps):
        super().__init__()
        self.initial_learning_rate = initial_learning_rate
        self.warmup_steps = warmup_steps
        self.decay_schedule_fn = decay_schedule_fn

    def __call__(self, step):
        global_step_float = tf.cast(step, tf.float32)
        warmup_steps_float = tf.cast(self.warmup_steps, tf.float32)
        warmup_percent_done = global_step_float / warmup_steps_float
        warmup_learning_rate = self.initial_learning_rate * warmup_percent_done
        return tf.cond(
            global_step_float < warmup_steps_float,
            lambda: warmup_learning_rate,
            lambda: self.decay_schedule_fn(step),
        )

    def get_config(self):
        return {
            "initial_learning_rate": self.initial_learning_rate,
            "decay_schedule_fn": self.decay_schedule_fn,
            "warmup_steps": self.warmup_steps,
        }


decay = tf.keras.optimizers.schedules.PolynomialDecay(1.0, 10, 0.0)
schedule = WarmUp(1.0, decay, 3)
opt = tf.keras.mixed_precision.LossScaleOptimizer(
    tf.keras.optimizers.SGD(schedule), initial_scale=2.0**10
)
v = tf.Variable(0.0)
trace = []
for g in (1.0, 1.0, float("nan"), 1.0, 1.0):
    lr = opt.inner_optimizer._decayed_lr(tf.float32)
    trace.append([round(float(lr), 5), str(lr.dtype.name)])
    opt.apply_gradients([(tf.constant(g), v)])
exponential = tf.keras.mixed_precision.LossScaleOptimizer(
    tf.keras.optimizers.Adam(
        tf.keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5, staircase=True)
    )
)
for _ in range(5):
    exponential.minimize(lambda: v * v, [v])
unwrapped = tf.keras.optimizers.Adam(0.125)
plain = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD(0.3))


@tf.function
def in_graph():
    return (
        exponential._optimizer._decayed_lr(tf.float32),
        plain.inner_optimizer._decayed_lr(tf.float32),
    )


result = {
    "trace": trace,
    "v": round(float(v), 4),
    "lr": [round(float(x), 5) for x in in_graph()],
    "inner": round(float(unwrapped._decayed_lr("float32")), 5),
    "iterations": [int(opt.iterations), int(exponential.iterations)],
    "scale": float(opt.loss_scale),
    "schedule": type(opt.inner_optimizer.get_config()["learning_rate"]).__name__,
}
print("RESULT", json.dumps(result))
