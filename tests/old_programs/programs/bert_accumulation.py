# The training loop of a BERT code base: AdamWeightDecay of its own, a warm-up schedule,
# gradients accumulated on each replica, clipped together. Written for TF 2.3 - 2.8.
import json
import re

import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2
)
ACCUMULATED, STEPS, BATCH = 2, 6, 8


class WarmUp(tf.keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, initial, after, steps):
        super().__init__()
        self.initial, self.after, self.steps = initial, after, steps

    def __call__(self, step):
        done = tf.cast(step, tf.float32) / tf.cast(self.steps, tf.float32)
        return tf.cond(
            done < 1.0, lambda: self.initial * done, lambda: self.after(step)
        )

    def get_config(self):
        return {"initial": self.initial, "after": self.after, "steps": self.steps}


class AdamWeightDecay(tf.keras.optimizers.Adam):
    def __init__(
        self, learning_rate=0.001, weight_decay_rate=0.0, exclude=None, **kwargs
    ):
        super().__init__(learning_rate, **kwargs)
        self.weight_decay_rate = weight_decay_rate
        self._exclude = exclude or []

    def _prepare_local(self, var_device, var_dtype, apply_state):
        super()._prepare_local(var_device, var_dtype, apply_state)
        apply_state[(var_device, var_dtype)]["weight_decay_rate"] = tf.constant(
            self.weight_decay_rate, name="adam_weight_decay_rate"
        )

    def _decay_weights_op(self, var, learning_rate, apply_state):
        if any(re.search(pattern, var.name) for pattern in self._exclude):
            return tf.no_op()
        rate = apply_state[(var.device, var.dtype.base_dtype)]["weight_decay_rate"]
        return var.assign_sub(learning_rate * var * rate, use_locking=self._use_locking)

    def _get_lr(self, var_device, var_dtype, apply_state):
        coefficients = apply_state.get((var_device, var_dtype))
        if coefficients is None:
            coefficients = self._fallback_apply_state(var_device, var_dtype)
            apply_state[(var_device, var_dtype)] = coefficients
        return coefficients["lr_t"], {"apply_state": apply_state}

    def _resource_apply_dense(self, grad, var, apply_state=None):
        rate, kwargs = self._get_lr(var.device, var.dtype.base_dtype, apply_state)
        decay = self._decay_weights_op(var, rate, apply_state)
        with tf.control_dependencies([decay]):
            return super()._resource_apply_dense(grad, var, **kwargs)

    def _resource_apply_sparse(self, grad, var, indices, apply_state=None):
        rate, kwargs = self._get_lr(var.device, var.dtype.base_dtype, apply_state)
        decay = self._decay_weights_op(var, rate, apply_state)
        with tf.control_dependencies([decay]):
            return super()._resource_apply_sparse(grad, var, indices, **kwargs)


strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
policy = tf.keras.mixed_precision.Policy("mixed_float16")
tf.keras.mixed_precision.set_global_policy(policy)

random = np.random.RandomState(0)
ids = random.randint(0, 16, (STEPS * ACCUMULATED * BATCH, 5))
labels = (ids.sum(1) % 2).astype("int32")

with strategy.scope():
    inputs = tf.keras.Input((5,), dtype="int32")
    hidden = tf.keras.layers.Embedding(16, 4, name="embedding")(inputs)
    hidden = tf.keras.layers.GlobalAveragePooling1D()(hidden)
    hidden = tf.keras.layers.Dense(6, activation="tanh", name="pooler")(hidden)
    hidden = tf.keras.layers.LayerNormalization(name="layer_norm")(hidden)
    outputs = tf.keras.layers.Dense(2, dtype="float32", name="classifier")(hidden)
    model = tf.keras.Model(inputs, outputs)
    model.set_weights(
        [random.normal(0, 0.5, w.shape).astype("float32") for w in model.get_weights()]
    )
    decay = tf.keras.optimizers.schedules.PolynomialDecay(0.02, STEPS, 0.0)
    optimizer = AdamWeightDecay(
        WarmUp(0.02, decay, 2),
        weight_decay_rate=0.01,
        epsilon=1e-6,
        exclude=["layer_norm", "bias"],
    )
    optimizer = tf.keras.mixed_precision.LossScaleOptimizer(
        optimizer, initial_scale=2.0**19, dynamic_growth_steps=3
    )
    accumulated = [
        tf.Variable(
            tf.zeros_like(v),
            trainable=False,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
        )
        for v in model.trainable_variables
    ]
    train_loss = tf.keras.metrics.Mean("training_loss", dtype=tf.float32)


def forward(batch):
    x, y = batch
    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        loss = tf.reduce_sum(each) / BATCH
        scaled = optimizer.get_scaled_loss(loss)
    gradients = tape.gradient(scaled, model.trainable_variables)
    gradients = optimizer.get_unscaled_gradients(gradients)
    for total, gradient in zip(accumulated, gradients):
        total.assign_add(tf.convert_to_tensor(gradient) / ACCUMULATED)
    train_loss.update_state(loss * 2)


def apply():
    gradients = [total.read_value() for total in accumulated]
    finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(g)) for g in gradients])
    norm = tf.cond(finite, lambda: tf.linalg.global_norm(gradients), lambda: 1.0)
    clipped, _ = tf.clip_by_global_norm(gradients, clip_norm=1.0, use_norm=norm)
    optimizer.apply_gradients(zip(clipped, model.trainable_variables))
    for total in accumulated:
        total.assign(tf.zeros_like(total))


@tf.function
def train_steps(iterator):
    for _ in range(ACCUMULATED):
        strategy.run(forward, args=(next(iterator),))
    strategy.run(apply)


data = tf.data.Dataset.from_tensor_slices((ids, labels)).batch(BATCH)
iterator = iter(strategy.experimental_distribute_dataset(data))
losses, scales = [], []
for _ in range(STEPS):
    train_loss.reset_states()
    train_steps(iterator)
    losses.append(round(float(train_loss.result()), 4))
    scales.append(float(optimizer.loss_scale))

result = {
    "loss": losses,
    "scale": scales,
    "iterations": int(optimizer.iterations.numpy()),
    "norms": [round(float(np.linalg.norm(w)), 4) for w in model.get_weights()],
    "slots": sorted(optimizer.get_slot_names()),
}
print("RESULT", json.dumps(result))
