"""On two real workers, reading and explaining the loss scale does not change the training."""

import sys

import pytest

from tests.families import FAMILIES
from tests.processes import HANGS_AFTER, assert_succeeded, run_workers

# Trains twice with each family. The second training also reads the loss scale in all possible
# ways. In the third step, the first worker has a NaN.
PROGRAM = """
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
import keras, sys, tempfile
import numpy as np
import tf_lso
from tests.families import FAMILIES, KERASES, legacy_step

def train(family, told):
    keras.utils.set_random_seed(1)
    layers = KERASES[family].layers
    with strategy.scope():
        model = KERASES[family].Sequential([
            layers.Input((3,)), layers.Dense(4, dtype="mixed_float16"),
            layers.Dense(1)])
        optimizer = tf_lso.LossScaleOptimizer(FAMILIES[family].Adam(0.1))
        optimizer.build(model.trainable_variables) if family != "legacy" else None

    @tf.function
    def step(x):
        def replica_step(x):
            loss = lambda: tf.reduce_mean(model(x) ** 2)
            legacy_step(optimizer, loss, model.trainable_variables)
            return optimizer.skipped_steps if told else 0
        return strategy.run(replica_step, args=(x,))

    for number in range(6):
        def batch(context, number=number):
            bad = number == 2 and context.replica_id_in_sync_group == 0
            values = np.random.RandomState(number).rand(2, 3).astype("float32")
            return tf.constant(values * (np.nan if bad else 1))
        step(strategy.experimental_distribute_values_from_function(batch))
        if told:
            assert int(optimizer.skipped_steps) == (number >= 2)
            assert bool(optimizer.last_step_skipped) == (number == 2)
            overflows = optimizer.last_overflow
            assert {o.kind for o in overflows} == ({"nan"} if number >= 2 else set())
            tf_lso.raise_if_stuck(optimizer)
            with tf.summary.create_file_writer(tempfile.mkdtemp()).as_default():
                tf_lso.summary.loss_scale(optimizer, number)
            if family == "keras3":
                x, y = np.ones((2, 3), "float32"), np.ones((2, 1), "float32")
                loss = keras.losses.MeanSquaredError()
                tf_lso.debugging.explain(model, x, y, loss=loss, loss_scale=optimizer)
    assert optimizer.iterations == 6
    return [w.tobytes() for w in model.get_weights()]

for family in FAMILIES:
    print(family, train(family, False) == train(family, True), flush=True)
"""


@pytest.mark.slow
@pytest.mark.multiworker
def test_training_is_bit_for_bit_the_same():
    command = [sys.executable, "-c", PROGRAM]
    results = run_workers(command, 2, HANGS_AFTER)
    assert_succeeded(results)
    for result in results:
        for family in FAMILIES:
            assert f"{family} True" in result.output
