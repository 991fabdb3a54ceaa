"""What runs in a fresh process: one job. `python -m tools.benchmarks.one_process`."""

import collections
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
from tests import counting, devices
from tools.benchmarks import plan

_INNER = {"keras3": keras.optimizers, "new": tf_keras.optimizers}
_INNER["legacy"] = tf_keras.optimizers.legacy
# Far from overflow, and from denormal numbers, over any number of steps measured.
_LEARNING_RATE = 1e-4
_SCALE = 2.0**15
_BATCH = 64


class Setting:
    """The candidates of a job, which share variables and inputs; each has its slots."""

    def __init__(self, job, strategy=None):
        self.job, self.workload = job, plan.workload(job.workload)
        self.strategy = strategy or tf.distribute.get_strategy()
        self.steps, self.records = {}, {}  # of the candidates that run
        with self.strategy.scope():
            # Small and not zero: a model of zeros would have gradients of zero.
            self.variables = [
                tf.Variable(_uniform(shape, number, limit=0.1), name=f"v{number}")
                for number, shape in enumerate(self.workload.shapes)
            ]
        self.inputs = self.strategy.experimental_distribute_values_from_function(
            lambda context: self._fed(context.replica_id_in_sync_group)
        )

    def record(self, name):
        """Make a candidate, let it take its first steps, and return its record."""
        record = {k: getattr(self.job, k) for k in plan.Job._fields[1:5]}
        record["candidate"] = name
        try:
            with self.strategy.scope():
                candidate = _candidate(name, self.job, self)
            step = self._step(*candidate)  # outside: there each strategy is the default
            step(*self.inputs)
            step(*self.inputs)
        except Exception as error:
            # A candidate that cannot do this is a result, not an end of the run.
            text = (str(error).strip().splitlines() or [""])[0][:200]
            return record | {"skipped": f"{type(error).__name__}: {text}"}
        if self.job.what == "memory":
            gc.collect()
            counting.reset_peak()
            for _ in range(self.job.rounds):
                step(*self.inputs)
            record["peak_bytes"] = counting.peak_bytes()
        self.steps[name], self.records[name] = step, record
        return record

    def time(self):
        """Add to the records the seconds of each round and what the graph holds."""
        calls = {n: lambda s=s: s(*self.inputs) for n, s in self.steps.items()}
        times = in_turns(calls, self.job.rounds, self.workload.repeats)
        for name, step in self.steps.items():
            record = self.records[name]
            record["seconds"] = times[name]
            if self.job.mode != "eager":
                graph = step.get_concrete_function(*self.inputs).graph
                record["traces"] = step.experimental_get_tracing_count()
                record["operations"] = sum(counting.operations(graph).values())
                record["collectives"] = counting.collectives(graph)

    def _fed(self, replica):
        """What a step takes on one replica: gradients, their rows, or a batch."""
        shapes, rows = self.workload.gradients, self.workload.rows
        if self.workload.trains:
            shapes = [(_BATCH, shapes[0][0]), (_BATCH, *shapes[-1])]
        values = [_uniform(s, number, replica) for number, s in enumerate(shapes)]
        sizes = [shape[0] for shape in self.workload.shapes] if rows else []
        return values + [tf.range(rows) * (size // rows) for size in sizes]

    def _step(self, scale_loss, apply):
        is_default = self.strategy is tf.distribute.get_strategy()

        def on_replica(*inputs):
            if not is_default:
                # An argument has no device in a traced function, and Keras 3's sum over
                # the replicas goes by the device. This copies nothing.
                inputs = [tf.identity(value) for value in inputs]
            return apply(self._gradients(scale_loss, inputs))

        def step(*inputs):
            run = self.strategy.run
            return on_replica(*inputs) if is_default else run(on_replica, inputs)

        if self.job.mode == "eager":
            return step
        return tf.function(step, jit_compile=self.job.mode == "xla" or None)

    def _gradients(self, scale_loss, inputs):
        """The scaled gradients of one step on one replica."""
        if self.workload.trains:
            x, y = inputs
            with tf.GradientTape() as tape:  # a dense model, ReLU before each layer
                for kernel, bias in zip(self.variables[::2], self.variables[1::2]):
                    x = tf.matmul(tf.nn.relu(x), kernel) + bias
                scaled = scale_loss(tf.reduce_mean(tf.math.squared_difference(x, y)))
            return tape.gradient(scaled, self.variables)
        # Called without a tape too: it tells the optimizer that the gradients are scaled.
        scale_loss(tf.constant(1.0))
        shapes = list(map(tf.constant, self.workload.shapes))
        slices = zip(inputs, inputs[len(shapes) :], shapes)
        return [tf.IndexedSlices(*parts) for parts in slices] or list(inputs)


def _candidate(name, job, setting):
    """Two functions of a new candidate: one scales a loss, one applies gradients."""
    inner = _INNER[job.family].SGD(_LEARNING_RATE, momentum=setting.workload.momentum)
    optimizer = inner
    if name == plan.PEER:
        own = keras.optimizers if job.family == "keras3" else tf_keras.mixed_precision
        optimizer = own.LossScaleOptimizer(inner, initial_scale=_SCALE)
    elif name not in (plan.BARE, plan.FLOOR):
        dynamic = name != plan.FIXED
        optimizer = tf_lso.LossScaleOptimizer(inner, dynamic, initial_scale=_SCALE)
    if job.family != "legacy":  # which has nothing to build
        # Before the first step: Keras 3's own cannot be built inside strategy.run.
        optimizer.build(setting.variables)

    def apply(gradients):
        optimizer.apply_gradients(zip(gradients, setting.variables))

    if optimizer is inner:
        floor = name == plan.FLOOR
        return lambda loss: loss, _after_a_check(apply, job.mode) if floor else apply
    if job.family == "keras3" and name != plan.LEGACY_PROTOCOL:
        return optimizer.scale_loss, apply
    return (
        optimizer.get_scaled_loss,
        lambda gradients: apply(optimizer.get_unscaled_gradients(gradients)),
    )


def _after_a_check(apply, mode):
    """`apply` after the least that a check, which is not exact, and a division cost."""
    # Divided, not multiplied: TensorFlow would multiply the factor and the learning rate
    # of Keras 3's SGD first, and then no gradient is rescaled. Made outside of the graph,
    # which would multiply by the reciprocal of a constant.
    scale = tf.constant(_SCALE)

    def check_and_rescale(gradients):
        parts = tf.nest.flatten(gradients, expand_composites=True)
        # A NaN or an infinity anywhere reaches the sum, the fastest of all checks.
        sums = [tf.reduce_sum(part) for part in parts if part.dtype.is_floating]
        divided = [p / scale if p.dtype.is_floating else p for p in parts]
        rescaled = tf.nest.pack_sequence_as(gradients, divided, expand_composites=True)
        return tf.math.is_finite(tf.add_n(sums)), rescaled

    if mode == "eager":  # where this, too, is one traced function
        check_and_rescale = tf.function(check_and_rescale)

    def checked(gradients):
        verdict, rescaled = check_and_rescale(gradients)
        apply(rescaled)
        return verdict  # so that no graph optimization takes the check away

    return checked


def _uniform(shape, number, replica=0, limit=1.0):
    """Numbers between -limit and limit."""
    # By NumPy: TensorFlow's allocator would keep what its own operations need on the way,
    # and a step that takes it again would not show in the peak memory.
    numbers = np.random.default_rng((number, replica)).random(shape, np.float32)
    return tf.convert_to_tensor((numbers - 0.5) * 2 * limit)


def in_turns(calls, rounds, repeats):
    """Time all `calls`, `repeats` together, in each round; {name: seconds of each}.

    The order is rotated, so that none always runs after the same other one; garbage is
    collected between the calls.
    """
    names = collections.deque(calls)
    times = {name: [] for name in names}
    gc.freeze()  # what exists by now need not be looked through again and again
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


def main(job, file):
    """Do a job, given as JSON; the first worker writes its records to a file."""
    job = plan.Job(*json.loads(job))
    setting = Setting(job, devices.strategy(job.strategy))
    records = [setting.record(name) for name in job.candidates]
    if job.what == "time":
        setting.time()
    if not tf.distribute.cluster_resolver.TFConfigClusterResolver().task_id:
        pathlib.Path(file).write_text(json.dumps(records))


if __name__ == "__main__":
    main(*sys.argv[1:])
