"""Handwritten digits in mixed precision: a program of 2020, as it was written then.

It was written for TensorFlow 2.3 and has not a line for today's:

    tf-lso run tf_lso/examples/digits.py --help

A small convolutional network computes in float16. The loss is scaled up so that small
gradients do not vanish in float16, and the scale adjusts itself: it starts too high,
so the first steps overflow and are skipped, each halving it; afterwards it doubles
whenever a number of steps has gone well. The plot shows all of that.

The images are the 1,797 of scikit-learn, so nothing is downloaded. Replicas share each
batch: all GPUs there are, or else two halves of the CPU. With `TF_CONFIG` set, the
replicas are those of that cluster.
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

from tf_lso.examples.history import History, plot, power_of_two, print_table
from tf_lso.examples.images import load_digits

REQUIRED_ACCURACY = 0.95
CLIP_NORM = 1.0


def make_strategy():
    """Returns the cluster of `TF_CONFIG`, or else all GPUs, or else a CPU in halves.

    It has to run before TensorFlow does anything else: neither the devices nor the
    cluster can be changed later.
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
    """Returns the network. Under the policy `mixed_float16` it computes in float16."""
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(8, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            # The loss takes an exponential of these, for which float16 is too narrow.
            keras.layers.Dense(10, dtype="float32"),
        ]
    )


def make_dataset(strategy, digits, batch_size, seed):
    """Returns shuffled training batches, each shared among the replicas.

    Args:
      strategy: Whose replicas share a batch. Under several workers, each reads all
        images and keeps its part, so all have to shuffle alike: by `seed`.
      digits: The images.
      batch_size: The size of the whole batch, over all replicas.
      seed: Determines the order, which is another one in every epoch.
    """
    dataset = tf.data.Dataset.from_tensor_slices(
        (digits.train_images, digits.train_labels)
    )
    dataset = dataset.shuffle(len(digits.train_images), seed=seed)
    dataset = dataset.batch(batch_size, drop_remainder=True)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.DATA
    )
    return strategy.experimental_distribute_dataset(dataset.with_options(options))


def make_train_step(strategy, model, optimizer, batch_size):
    """Returns the function that trains on one distributed batch; it returns the loss.

    The step inside is the one that TensorFlow's guide to mixed precision taught: scale
    the loss, take gradients, unscale them, use them as ever.
    """
    loss_of_each = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="none"
    )

    def replica_step(images, labels):
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            # Divided by the whole batch's size: the replicas' gradients are summed.
            loss = tf.nn.compute_average_loss(
                loss_of_each(labels, logits), global_batch_size=batch_size
            )
            scaled_loss = optimizer.get_scaled_loss(loss)
        scaled_gradients = tape.gradient(scaled_loss, model.trainable_variables)
        gradients = optimizer.get_unscaled_gradients(scaled_gradients)
        # Clipping belongs here, where the gradients have their real size. One that has
        # overflowed turns all into NaN, and the step is skipped all the same.
        gradients, _ = tf.clip_by_global_norm(gradients, CLIP_NORM)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    @tf.function
    def train_step(images, labels):
        losses = strategy.run(replica_step, args=(images, labels))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    return train_step


def train(
    strategy,
    model,
    optimizer,
    digits,
    *,
    epochs,
    batch_size,
    seed,
    show_progress=True,
):
    """Trains `model` and returns what happened at every step.

    Progress is a bar in a terminal and a line per epoch elsewhere.

    Args:
      strategy: The strategy in whose scope model and optimizer were made.
      model: Trained in place.
      optimizer: Holds the loss scale.
      digits: The images.
      epochs: How often to go through the training images.
      batch_size: The size of the whole batch, over all replicas.
      seed: Determines the order of the images.
      show_progress: False keeps silent.
    """
    from tqdm import tqdm

    dataset = make_dataset(strategy, digits, batch_size, seed)
    train_step = make_train_step(strategy, model, optimizer, batch_size)
    history = History()
    scale = optimizer.loss_scale().numpy()
    steps = len(digits.train_images) // batch_size
    bar = tqdm(
        total=epochs * steps, unit="step", disable=None if show_progress else True
    )
    with bar:
        for epoch in range(1, epochs + 1):
            for images, labels in dataset:
                loss = float(train_step(images, labels))
                previous, scale = scale, optimizer.loss_scale().numpy()
                history.losses.append(loss)
                history.scales.append(scale)
                # The scale falls when a step overflowed, and only then.
                history.skipped.append(scale < previous)
                bar.update()
            mean_loss = float(np.mean(history.losses[-steps:]))
            bar.set_postfix(loss=f"{mean_loss:.3f}", scale=power_of_two(scale))
            if show_progress and bar.disable:
                print(
                    f"epoch {epoch:2d}/{epochs}  loss {mean_loss:.4f}"
                    f"  loss scale {power_of_two(scale)}",
                    flush=True,
                )
    return history


def accuracy_of(model, digits):
    """Returns which part of the held-out images `model` recognises, from 0 to 1."""
    logits = model(digits.test_images, training=False)
    return float(np.mean(np.argmax(logits, axis=-1) == digits.test_labels))


def main(argv=None):
    """Trains, prints a table and writes the plot. Returns the exit code.

    Args:
      argv: The arguments; those of the command line by default.

    Returns:
      0, or 1 when fewer than `REQUIRED_ACCURACY` of the held-out digits are recognised.
    """
    options = _parse(argv)
    _check_installed("sklearn", "matplotlib", "tqdm")
    strategy = make_strategy()
    chief, worker = _role(strategy)

    start = time.monotonic()
    for seed in (random.seed, np.random.seed, tf.random.set_seed):
        seed(options.seed)
    policy = mixed_precision.Policy(
        "mixed_float16",
        loss_scale=tf.mixed_precision.experimental.DynamicLossScale(
            initial_loss_scale=options.initial_scale,
            increment_period=options.growth_steps,
        ),
    )
    mixed_precision.set_policy(policy)
    digits = load_digits(options.seed)
    if options.batch_size > len(digits.train_images):
        sys.exit(
            f"--batch-size {options.batch_size}: there are only "
            f"{len(digits.train_images)} training images."
        )
    with strategy.scope():
        model = make_model()
        optimizer = mixed_precision.LossScaleOptimizer(
            keras.optimizers.Adam(lr=options.learning_rate),
            loss_scale=policy.loss_scale,
        )
    history = train(
        strategy,
        model,
        optimizer,
        digits,
        epochs=options.epochs,
        batch_size=options.batch_size,
        seed=options.seed,
        show_progress=chief,
    )
    accuracy = accuracy_of(model, digits)
    seconds = time.monotonic() - start

    if chief:
        plot(history, options.output)
        print_table(
            {
                "accuracy on held-out digits": f"{accuracy:.4f}",
                "replicas": strategy.num_replicas_in_sync,
                "steps": len(history.losses),
                "skipped steps": sum(history.skipped),
                "final loss scale": power_of_two(history.scales[-1]),
                "seconds": f"{seconds:.1f}",
                "plot": options.output,
            }
        )
    else:
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
        description=(
            "Train a small network on handwritten digits in float16 with a dynamic"
            " loss scale, and plot how the scale finds its value."
        ),
        epilog=(
            "Things to try: --initial-scale 1 shows a scale that only climbs;"
            " --growth-steps 10 one that keeps touching the limit of float16, where"
            " steps are skipped. With TF_CONFIG set, the program is one worker of that"
            " cluster; start it once for every worker."
        ),
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--epochs", type=_whole, default=12, help="passes over the training images")
    add("--batch-size", type=_whole, default=64, help="images per step, all replicas")
    add(
        "--initial-scale",
        type=_positive,
        default=2.0**24,
        help="the loss scale at the start; this default makes the first steps overflow",
    )
    add(
        "--growth-steps",
        type=_whole,
        default=50,
        help="the scale doubles after so many good steps in a row; 2000 is usual",
    )
    add("--learning-rate", type=_positive, default=3e-3, help="Adam's step size")
    add("--seed", type=int, default=0, help="for the weights, the split and the order")
    add("--output", type=Path, default=Path("digits.png"), help="where the plot goes")
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


def _role(strategy):
    """Returns whether this process is the chief, and what to call it."""
    cluster = strategy.cluster_resolver
    if not isinstance(strategy, tf.distribute.experimental.MultiWorkerMirroredStrategy):
        return True, "the only process"
    name = f"{cluster.task_type} {cluster.task_id}"
    if "chief" in cluster.cluster_spec().jobs:
        return cluster.task_type == "chief", name
    return cluster.task_id == 0, name


if __name__ == "__main__":
    sys.exit(main())
