"""Trains in float16 by `fit` of Keras 3: `tools.gpus.convergence REPLICAS EPOCHS`.

On one device the step is compiled by XLA, on several it runs under MirroredStrategy. The
loss scale starts too high, so that steps must be skipped.
"""

import contextlib
import sys

from tests import devices

REQUIRED_ACCURACY = 0.95


def main(replicas, epochs):
    """Train; print what came out, and return 0 if it is good."""
    strategy = devices.mirrored(replicas) if replicas > 1 else None

    import keras

    import tf_lso
    from tf_lso.examples import images

    keras.utils.set_random_seed(0)
    keras.config.set_dtype_policy("mixed_float16")
    digits = images.load_digits(0)
    with strategy.scope() if strategy else contextlib.nullcontext():
        layers = keras.layers
        model = keras.Sequential(
            [
                keras.Input((8, 8, 1)),
                layers.Conv2D(16, 3, padding="same", activation="relu"),
                layers.MaxPooling2D(),
                layers.Flatten(),
                layers.Dense(64, activation="relu"),
                layers.Dense(10, dtype="float32"),
            ]
        )
        optimizer = tf_lso.LossScaleOptimizer(
            keras.optimizers.Adam(3e-3), initial_scale=2.0**24, dynamic_growth_steps=100
        )
    model.compile(
        optimizer,
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=strategy is None,
    )
    model.fit(
        digits.train_images,
        digits.train_labels,
        batch_size=64,
        epochs=epochs,
        verbose=0,
    )
    # Counted by hand: the last batches of an epoch need not fill all replicas. In one
    # batch, since XLA would compile a step for the last one of several.
    count = len(digits.test_images)
    predicted = model.predict(digits.test_images, batch_size=count, verbose=0)
    predicted = predicted.argmax(axis=-1)
    accuracy = float((predicted == digits.test_labels).mean())
    skipped = int(optimizer.skipped_steps)
    steps = int(keras.ops.convert_to_numpy(optimizer.iterations))
    print(
        f"RESULT accuracy {accuracy:.4f}, {skipped} of {steps} steps skipped, "
        f"loss scale {float(optimizer.loss_scale):g}"
    )
    return 0 if accuracy >= REQUIRED_ACCURACY and 0 < skipped < steps / 2 else 1


if __name__ == "__main__":
    devices.hide_others()
    sys.exit(main(*map(int, sys.argv[1:])))
