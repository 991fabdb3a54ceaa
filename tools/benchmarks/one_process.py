"""Measure one setting in this process: `python -m tools.benchmarks.one_process`."""

import collections
import functools
import gc
import json
import pathlib
import sys
import time

import keras
import numpy as np
import tensorflow as tf
import tf_keras

import tf_lso
from tests import devices
from tools.benchmarks.workloads import (
    CANDIDATES,
    OURS,
    OWN,
    WORKLOADS,
    Setting,
)

# With this learning rate and scale, no gradient overflows or becomes denormal in any number of
# measured steps.
_LEARNING_RATE = 1e-4
_SCALE = 2.0**15
_BATCH = 64


def _optimizer(family, candidate, momentum):
    if family.startswith("keras3"):
        optimizers, own = keras.optimizers, keras.optimizers.LossScaleOptimizer
    else:
        optimizers, own = (
            tf_keras.optimizers,
            tf_keras.mixed_precision.LossScaleOptimizer,
        )
    if family == "legacy":
        optimizers = tf_keras.optimizers.legacy
    inner = optimizers.SGD(_LEARNING_RATE, momentum=momentum)
    if candidate == OWN:
        return own(inner, initial_scale=_SCALE)
    if candidate == OURS:
        return tf_lso.LossScaleOptimizer(inner, initial_scale=_SCALE)
    return inner


class Steps:
    """The steps of the candidates. All steps share variables and inputs, but not slots."""

    def __init__(self, setting, strategy=None):
        self.setting, self.workload = setting, WORKLOADS[setting.workload]
        self.strategy = strategy or tf.distribute.get_strategy()
        with self.strategy.scope():
            # The values are small but not zero, since a model of zeros has zero gradients.
            self.variables = [
                tf.Variable(_uniform(shape, number, limit=0.1), name=f"v{number}")
                for number, shape in enumerate(self.workload.shapes)
            ]
        self.inputs = self.strategy.experimental_distribute_values_from_function(
            lambda context: self._fed(context.replica_id_in_sync_group)
        )

    def step(self, candidate):
        """Return the step of a candidate, after the step has run twice."""
        family = self.setting.family
        with self.strategy.scope():
            optimizer = _optimizer(family, candidate, self.workload.momentum)
            if family != "legacy":  # legacy optimizers have no `build`
                # Build before the first step, since Keras 3's own wrapper cannot be built
                # in strategy.run.
                optimizer.build(self.variables)
        scale_loss = unscale = _as_it_is
        if candidate in (OWN, OURS):
            # Keras 3's own wrapper has no get_scaled_loss.
            if family != "keras3" and hasattr(optimizer, "get_scaled_loss"):
                scale_loss = optimizer.get_scaled_loss
                unscale = optimizer.get_unscaled_gradients
            else:
                scale_loss = optimizer.scale_loss
        # Compare outside the scope, because inside it `get_strategy` returns the strategy.
        is_default = self.strategy is tf.distribute.get_strategy()

        def on_replica(*inputs):
            if not is_default:
                # To sum over the replicas, Keras 3 reads the `device` of each tensor. Arguments
                # of a traced function have no device, but results of `tf.identity` have one.
                # The values are not copied.
                inputs = [tf.identity(value) for value in inputs]
            gradients = unscale(self._gradients(scale_loss, inputs))
            optimizer.apply_gradients(zip(gradients, self.variables))

        def step(*inputs):
            run = self.strategy.run
            return on_replica(*inputs) if is_default else run(on_replica, inputs)

        if self.setting.mode != "eager":
            step = tf.function(step, jit_compile=self.setting.mode == "xla" or None)
        step(*self.inputs)
        step(*self.inputs)
        return step

    def _fed(self, replica):
        """Return the inputs of one replica: gradients and their rows, or a batch of data."""
        shapes, rows = self.workload.shapes, self.workload.rows
        if self.workload.trains:
            fed = [(_BATCH, shapes[0][0]), (_BATCH, *shapes[-1])]
        else:
            fed = [(rows or size, *others) for size, *others in shapes]
        values = [_uniform(shape, number, replica) for number, shape in enumerate(fed)]
        sizes = [shape[0] for shape in shapes] if rows else []
        return values + [tf.range(rows) * (size // rows) for size in sizes]

    def _gradients(self, scale_loss, inputs):
        """Return the scaled gradients of one step on one replica."""
        if self.workload.trains:
            x, y = inputs
            with tf.GradientTape() as tape:  # a dense model, ReLU before each layer
                for kernel, bias in zip(self.variables[::2], self.variables[1::2]):
                    x = tf.matmul(tf.nn.relu(x), kernel) + bias
                scaled = scale_loss(tf.reduce_mean(tf.math.squared_difference(x, y)))
            return tape.gradient(scaled, self.variables)
        # Scale a loss even without a tape, so that the optimizer knows that the gradients are
        # scaled.
        scale_loss(tf.constant(1.0))
        if not self.workload.rows:
            return list(inputs)
        shapes = list(map(tf.constant, self.workload.shapes))
        slices = zip(inputs, inputs[len(shapes) :], shapes)
        return [tf.IndexedSlices(*parts) for parts in slices]


def _as_it_is(value):
    return value


def _uniform(shape, number, replica=0, limit=1.0):
    """Return a tensor of random numbers between -limit and limit."""
    numbers = np.random.default_rng((number, replica)).random(shape, np.float32)
    return tf.convert_to_tensor((numbers - 0.5) * 2 * limit)


def seconds_in_turns(calls, rounds, repeats):
    """Time all calls in each round. Return {name: list of the seconds for one call}.

    Args:
      calls: {name: function}.
      rounds: int, the number of rounds.
      repeats: int, how often each function is called in a round.
    """
    # The order rotates, so that no call always runs after the same other call.
    names = collections.deque(calls)
    times = {name: [] for name in names}
    gc.freeze()  # the collections below need not visit objects that exist now
    for _ in range(rounds):
        for name in names:
            gc.collect()
            gc.disable()
            devices.wait()
            start = time.perf_counter()
            for _ in range(repeats):
                calls[name]()
            devices.wait()
            times[name].append((time.perf_counter() - start) / repeats)
            gc.enable()
        names.rotate(-1)
    gc.unfreeze()
    return times


def measure_time(steps, rounds):
    """Return {candidate: {"seconds": list of the seconds of each round}}."""
    calls = {
        name: functools.partial(steps.step(name), *steps.inputs) for name in CANDIDATES
    }
    times = seconds_in_turns(calls, rounds, steps.workload.repeats)
    return {name: {"seconds": seconds} for name, seconds in times.items()}


def main(job, file):
    """Measure the job that a JSON text describes, and write the result to a file.

    `__main__.measure` starts this process.
    """
    *setting, rounds = json.loads(job)
    setting = Setting(*setting)
    steps = Steps(setting, devices.strategy(setting.strategy))
    pathlib.Path(file).write_text(json.dumps(measure_time(steps, rounds)))


if __name__ == "__main__":
    main(*sys.argv[1:])
