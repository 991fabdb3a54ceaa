"""Train on handwritten digits in mixed precision, as programs did in 2020.

The program uses the API of TensorFlow 2.3, and no line was changed for today's TensorFlow.
`tf-lso run` starts the program. This command prints the options of the program:

    tf-lso run tf_lso/examples/digits.py --help

A small convolutional network computes in float16. The loss is scaled up, so that small
gradients do not become zero in float16. At the start the scale is too high, so the first
steps overflow. These steps are skipped, and each skipped step halves the scale. After
`--growth-steps` steps without overflow, the scale doubles. A plot shows the loss, the scale
and the skipped steps. With `--log-dir`, TensorBoard also shows these values.

The program uses the 1,797 images of scikit-learn, so it downloads nothing. Each batch is
divided among several replicas. The replicas run on all GPUs of the machine, or on two logical
CPU devices if there is no GPU. If `TF_CONFIG` is set, the replicas run on the cluster that
`TF_CONFIG` describes.
"""

import argparse
import importlib.util
import math
import random
import sys
import time
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras.mixed_precision import experimental as mixed_precision

from tf_lso.examples.history import History, plot, power_of_two

REQUIRED_ACCURACY = 0.95
CLIP_NORM = 1.0
# The number of images in one step, summed over all replicas.
BATCH_SIZE = 64
LEARNING_RATE = 3e-3
# The seed for the initial weights, the choice of test images, and the order of the images.
SEED = 0


def load_digits():
    """Return (images, labels) for training, and (images, labels) for testing.

    One fifth of scikit-learn's images are test images. Images are float32 from 0 to 1, of
    shape (n, 8, 8, 1). Labels are int64.
    """
    from sklearn import datasets

    pixels, labels = datasets.load_digits(return_X_y=True)
    images = (pixels / 16.0).astype(np.float32).reshape(-1, 8, 8, 1)
    order = np.random.default_rng(SEED).permutation(len(images))
    test, train = np.split(order, [len(images) // 5])
    labels = labels.astype(np.int64)
    return (images[train], labels[train]), (images[test], labels[test])


def make_strategy():
    """Return a strategy for the cluster of `TF_CONFIG`, all GPUs, or two CPU devices.

    Call this function before other functions of TensorFlow, because the devices and the
    cluster cannot be changed after TensorFlow has used them.
    """
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if cluster.cluster_spec():
        return tf.distribute.experimental.MultiWorkerMirroredStrategy()
    if tf.config.list_physical_devices("GPU"):
        return tf.distribute.MirroredStrategy()
    [cpu] = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration() for _ in range(2)]
    )
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def make_model():
    """Return the network. Its layers compute in float16 under the policy `mixed_float16`."""
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(8, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            # The outputs are float32, because the loss computes their exponentials, which may
            # be too large for float16.
            keras.layers.Dense(10, dtype="float32"),
        ]
    )


def make_dataset(strategy, images, labels):
    """Return shuffled training batches, each divided among the replicas.

    Each worker reads all images, but trains only on its own part of them. So all workers must
    shuffle with the same seed.
    """
    dataset = tf.data.Dataset.from_tensor_slices((images, labels))
    dataset = dataset.shuffle(len(images), seed=SEED)
    dataset = dataset.batch(BATCH_SIZE, drop_remainder=True)
    sharing = tf.data.Options()
    sharing.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.DATA
    )
    return strategy.experimental_distribute_dataset(dataset.with_options(sharing))


def make_train_step(strategy, model, optimizer):
    """Return the function that trains on one distributed batch and returns the loss.

    As in TensorFlow's guide to mixed precision, a step scales the loss, computes the
    gradients, unscales the gradients, and then applies the gradients to the weights.
    """
    loss_of_each = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="none"
    )

    def replica_step(images, labels):
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            # Divide the sum of the losses by the size of the whole batch, because the
            # optimizer sums the gradients of all replicas.
            loss = tf.nn.compute_average_loss(
                loss_of_each(labels, logits), global_batch_size=BATCH_SIZE
            )
            scaled_loss = optimizer.get_scaled_loss(loss)
        scaled_gradients = tape.gradient(scaled_loss, model.trainable_variables)
        gradients = optimizer.get_unscaled_gradients(scaled_gradients)
        # Clip after unscaling, when the gradients have their real size. If one gradient has
        # overflowed, clipping makes all gradients NaN. The optimizer still skips such a step.
        gradients, _ = tf.clip_by_global_norm(gradients, CLIP_NORM)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    @tf.function
    def train_step(images, labels):
        losses = strategy.run(replica_step, args=(images, labels))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    return train_step


def train(strategy, model, optimizer, digits, options, is_chief):
    """Train `model` in place and return the `History` of its steps.

    The chief worker prints a line for each epoch, and writes scalars for TensorBoard.
    """
    dataset = make_dataset(strategy, *digits)
    train_step = make_train_step(strategy, model, optimizer)
    history = History([], [], [])
    scale = optimizer.loss_scale().numpy()
    writer = tf.summary.create_noop_writer()
    if options.log_dir is not None and is_chief:
        writer = tf.summary.create_file_writer(str(options.log_dir))
    with writer.as_default():
        for epoch in range(1, options.epochs + 1):
            first = len(history.losses)
            for images, labels in dataset:
                loss = float(train_step(images, labels))
                previous, scale = scale, optimizer.loss_scale().numpy()
                history.losses.append(loss)
                history.scales.append(scale)
                # A smaller scale shows that the optimizer has skipped the step.
                history.skipped.append(scale < previous)
                if options.log_dir is not None:
                    step = optimizer.iterations
                    tf.summary.scalar("loss", loss, step)
                    tf.summary.scalar("loss_scale", scale, step)
                    tf.summary.scalar("skipped_steps", sum(history.skipped), step)
            if is_chief:
                print(
                    f"epoch {epoch:2d}/{options.epochs}"
                    f"  loss {np.mean(history.losses[first:]):.4f}"
                    f"  loss scale {power_of_two(scale)}",
                    flush=True,
                )
    return history


def accuracy_of(model, images, labels):
    """Return the fraction of images for which `model` predicts the right label."""
    logits = model(images, training=False)
    return float(np.mean(np.argmax(logits, axis=-1) == labels))


def main(argv=None):
    """Train, print a table and write the plot. Return the exit code.

    The exit code is 1 if the accuracy on the test images is below `REQUIRED_ACCURACY`.
    """
    options = _parse(argv)
    _check_installed("sklearn", "matplotlib")
    if options.log_dir is not None:
        _check_installed("tensorboard")
    strategy = make_strategy()
    # `chief` is True in the chief worker of a cluster, and also if there is only one process.
    chief = strategy.extended.should_save_summary

    start = time.monotonic()
    for seed in (random.seed, np.random.seed, tf.random.set_seed):
        seed(SEED)
    loss_scale = tf.mixed_precision.experimental.DynamicLossScale(
        initial_loss_scale=options.initial_scale, increment_period=options.growth_steps
    )
    policy = mixed_precision.Policy("mixed_float16", loss_scale=loss_scale)
    mixed_precision.set_policy(policy)
    digits, held_out = load_digits()
    with strategy.scope():
        model = make_model()
        optimizer = mixed_precision.LossScaleOptimizer(
            keras.optimizers.Adam(learning_rate=LEARNING_RATE),
            loss_scale=policy.loss_scale,
        )
    history = train(strategy, model, optimizer, digits, options, is_chief=chief)
    accuracy = accuracy_of(model, *held_out)

    if chief:
        plot(history, options.output)
        print()
        for name, value in {
            "accuracy on held-out digits": f"{accuracy:.4f}",
            "replicas": strategy.num_replicas_in_sync,
            "steps": len(history.losses),
            "skipped steps": sum(history.skipped),
            "final loss scale": power_of_two(history.scales[-1]),
            "seconds": f"{time.monotonic() - start:.1f}",
            "plot": options.output,
        }.items():
            print(f"{name:<27}  {value}")
    else:
        task = strategy.cluster_resolver
        worker = f"{task.task_type} {task.task_id}"
        print(f"{worker} is done: accuracy {accuracy:.4f}; the chief has the rest.")
    if accuracy < REQUIRED_ACCURACY:
        print(
            f"An accuracy of {accuracy:.4f} is too low, {REQUIRED_ACCURACY} was"
            " expected. Try more --epochs, or the default options.",
            file=sys.stderr,
        )
        return 1
    return 0


def _parse(argv):
    parser = argparse.ArgumentParser(
        prog="tf-lso run tf_lso/examples/digits.py",
        description="Train a small network on handwritten digits in float16 with a dynamic"
        " loss scale, and plot how the scale finds its value.",
        epilog="Things to try: --initial-scale 1 shows a scale that only climbs. With"
        " --growth-steps 10 it keeps touching the limit of float16, where steps are"
        " skipped. With TF_CONFIG set, the program is one worker of that cluster; start it"
        " once for every worker.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    for name, kind, default, text in (
        ("--epochs", _whole, 12, "passes over the training images"),
        ("--initial-scale", _positive, 2.0**24, "with the default, steps overflow"),
        ("--growth-steps", _whole, 50, "good steps before the scale doubles"),
        ("--output", Path, Path("digits.png"), "where the plot goes"),
        ("--log-dir", Path, None, "where scalars for TensorBoard go; None: nowhere"),
    ):
        parser.add_argument(name, type=kind, default=default, help=text)
    return parser.parse_args(argv)


def _whole(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return value


def _positive(text):
    value = float(text)
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"{text} is not positive and finite")
    return value


def _check_installed(*modules):
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(
            f"This example also needs {', '.join(missing)}. Install what it needs with:"
            " pip install 'tf-lso[demo]'"
        )


if __name__ == "__main__":
    sys.exit(main())
