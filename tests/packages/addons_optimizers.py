"""Train with eight optimizers of TensorFlow Addons, and resume from a checkpoint."""

import tempfile
import warnings

import numpy as np
import tensorflow as tf

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the end of Addons, and the version of TensorFlow
    import tensorflow_addons as tfa

tf.keras.mixed_precision.set_global_policy("mixed_float16")
SGD = tf.keras.optimizers.legacy.SGD
OPTIMIZERS = {
    "AdamW": lambda: tfa.optimizers.AdamW(weight_decay=1e-3, learning_rate=0.01),
    "LAMB": lambda: tfa.optimizers.LAMB(0.01),
    "LazyAdam": lambda: tfa.optimizers.LazyAdam(0.01),
    "Lookahead": lambda: tfa.optimizers.Lookahead(SGD(0.01), sync_period=2),
    "MovingAverage": lambda: tfa.optimizers.MovingAverage(SGD(0.01)),
    "NovoGrad": lambda: tfa.optimizers.NovoGrad(0.01),
    "RectifiedAdam": lambda: tfa.optimizers.RectifiedAdam(0.01),
    "SWA": lambda: tfa.optimizers.SWA(SGD(0.01), start_averaging=1, average_period=2),
}
x = np.linspace(-1, 1, 16).reshape(8, 2).astype("float32")
y = x.sum(1, keepdims=True)


def new(make):
    dense = tf.keras.layers.Dense
    model = tf.keras.Sequential(
        [
            dense(4, "relu", kernel_initializer="ones", input_shape=(2,)),
            dense(1, kernel_initializer="ones", dtype="float32"),
        ]
    )
    optimizer = tf.keras.mixed_precision.LossScaleOptimizer(
        make(), initial_scale=2.0**17, dynamic_growth_steps=3
    )
    return model, optimizer, tf.train.Checkpoint(model=model, optimizer=optimizer)


def train(model, optimizer, steps):
    scales = []
    for _ in range(steps):
        with tf.GradientTape() as tape:
            scaled = optimizer.get_scaled_loss(tf.reduce_mean((model(x) - y) ** 2))
        grads = tape.gradient(scaled, model.trainable_variables)
        grads = optimizer.get_unscaled_gradients(grads)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        scales.append(float(optimizer.loss_scale))
    return scales


print(f"tensorflow_addons {tfa.__version__}")
for name, make in OPTIMIZERS.items():
    model, optimizer, checkpoint = new(make)
    scales = train(model, optimizer, 6)
    assert scales[0] == 2.0**16 and max(np.diff(scales)) > 0, scales  # fell and grew
    path = checkpoint.save(f"{tempfile.mkdtemp()}/checkpoint")
    model2, optimizer2, checkpoint2 = new(make)
    if (
        name == "NovoGrad"
    ):  # restores no unbuilt optimizer, with or without LossScaleOptimizer
        train(model2, optimizer2, 1)
    checkpoint2.restore(path)
    train(model, optimizer, 3)
    train(model2, optimizer2, 3)
    pairs = zip(model.get_weights(), model2.get_weights())
    same = all(np.array_equal(a, b) for a, b in pairs)
    weight = model.get_weights()[0][0, 0]
    scales = " ".join(f"{scale:g}" for scale in scales)
    print(f"{name}: scales {scales}, a weight {weight:.6f}, resumes equally: {same}")
    assert same
