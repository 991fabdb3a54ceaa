# The model garden's way: performance.configure_optimizer, and a training loop that asks
# whether the optimizer is a LossScaleOptimizer. Written for TF 2.4 - 2.10.
import argparse
import json

import garden_performance as performance
import numpy as np
import tensorflow as tf


class Trainer:
    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer
        self.loss_metric = tf.keras.metrics.Mean("loss", dtype=tf.float32)

    @tf.function
    def train_step(self, features, labels):
        with tf.GradientTape() as tape:
            logits = self.model(features, training=True)
            loss = tf.reduce_mean(tf.square(tf.cast(logits, tf.float32) - labels))
            if isinstance(self.optimizer, tf.keras.mixed_precision.LossScaleOptimizer):
                scaled_loss = self.optimizer.get_scaled_loss(loss)
            else:
                scaled_loss = loss
        tvars = self.model.trainable_variables
        grads = tape.gradient(scaled_loss, tvars)
        if isinstance(self.optimizer, tf.keras.mixed_precision.LossScaleOptimizer):
            grads = self.optimizer.get_unscaled_gradients(grads)
        self.optimizer.apply_gradients(list(zip(grads, tvars)))
        self.loss_metric.update_state(loss)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", default="fp16", choices=["fp16", "fp32", "rewrite"])
    parser.add_argument("--loss_scale", default=None)
    args = parser.parse_args()
    use_float16 = args.dtype == "fp16"
    performance.set_mixed_precision_policy(tf.float16 if use_float16 else tf.float32)
    scale = args.loss_scale
    if scale is not None and scale != "dynamic":
        scale = float(scale)
    optimizer = performance.configure_optimizer(
        tf.keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
        use_float16=use_float16,
        use_graph_rewrite=args.dtype == "rewrite",
        loss_scale=scale,
    )
    inputs = tf.keras.layers.Input((3,))
    x = tf.keras.layers.Dense(4, kernel_initializer="ones", activation="relu")(inputs)
    x = tf.keras.layers.Dense(1, kernel_initializer="ones")(x)
    model = tf.keras.Model(inputs, x)
    trainer = Trainer(model, optimizer)
    data = np.random.RandomState(0).rand(8, 4, 3).astype("float32")
    for batch in data:
        trainer.train_step(tf.constant(batch), tf.ones((4, 1)))
    result = {
        "dtype": args.dtype,
        "scaled": hasattr(optimizer, "loss_scale"),
        "scale": float(optimizer.loss_scale)
        if hasattr(optimizer, "loss_scale")
        else None,
        "loss": round(float(trainer.loss_metric.result()), 2),
        "iterations": int(optimizer.iterations),
    }
    print("RESULT", json.dumps(result))


if __name__ == "__main__":
    main()
