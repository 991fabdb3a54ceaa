"""What runs in a fresh process: one job. `python -m tools.benchmarks.one_process`."""

import collections
import functools
import gc
import json
import pathlib
import sys
import timeit

import numpy as np
import tensorflow as tf

from tests import counting, devices
from tools.benchmarks import candidates, plan, workloads

_WARM_UP = 2
_BATCH = 64


def main(job, file):
    """Do a job, given as JSON; the first worker writes its records to a file."""
    job = plan.Job(*json.loads(job))
    setting = Setting(job, devices.strategy(job.strategy))
    for candidate in job.candidates:
        setting.enter(candidate)
    records = setting.timed() if job.what == "time" else setting.with_peak_memory()
    if not tf.distribute.cluster_resolver.TFConfigClusterResolver().task_id:
        pathlib.Path(file).write_text(json.dumps(records))


class Setting:
    """The candidates of a job, ready to be called.

    They share the variables; each has slots of its own. What a step takes are tensors,
    other ones on each replica, all finite.
    """

    def __init__(self, job, strategy=None):
        self._job, self._workload = job, workloads.get(job.workload)
        self._strategy = strategy or tf.distribute.get_strategy()
        self._steps = {}  # of the candidates that run
        self._records = {}
        with self._strategy.scope():
            # Small and not zero: a model of zeros would have gradients of zero.
            self._variables = [
                tf.Variable(_uniform(shape, number, limit=0.1), name=f"v{number}")
                for number, shape in enumerate(self._workload.shapes)
            ]
        self._inputs = self._strategy.experimental_distribute_values_from_function(
            lambda context: self._fed(context.replica_id_in_sync_group)
        )

    def enter(self, name):
        """Make a candidate and let it take its first steps; note it if it cannot."""
        job, momentum = self._job, self._workload.momentum
        record = self._records[name] = plan.record_of(job, name)
        try:
            with self._strategy.scope():
                candidate = candidates.make(
                    name, job.family, momentum, self._variables, job.mode
                )
            step = self._step(*candidate)
            for _ in range(_WARM_UP):
                step(*self._inputs)
            self._steps[name] = step
        except Exception as error:
            # A candidate that cannot do this is a result, not an end of the run.
            text = (str(error).strip().splitlines() or [""])[0][:200]
            record["skipped"] = f"{type(error).__name__}: {text}"

    def timed(self):
        """The records, with the seconds of each round and what the graph holds."""
        calls = {n: functools.partial(s, *self._inputs) for n, s in self._steps.items()}
        times = in_turns(calls, self._job.rounds, self._workload.repeats)
        for name, step in self._steps.items():
            self._records[name]["seconds"] = times[name]
            if self._job.mode != "eager":
                graph = step.get_concrete_function(*self._inputs).graph
                self._records[name] |= {
                    "traces": step.experimental_get_tracing_count(),
                    "operations": sum(counting.operations(graph).values()),
                    "collectives": counting.collectives(graph),
                }
        return list(self._records.values())

    def with_peak_memory(self):
        """The records, with the most memory that the process held during steps."""
        for name, step in self._steps.items():
            gc.collect()
            counting.reset_peak()
            for _ in range(self._job.rounds):
                step(*self._inputs)
            self._records[name]["peak_bytes"] = counting.peak_bytes()
        return list(self._records.values())

    def _fed(self, replica):
        """What a step takes on one replica: gradients, their rows, or a batch."""
        shapes, rows = self._workload.gradients, self._workload.rows
        if self._workload.trains:
            shapes = [(_BATCH, shapes[0][0]), (_BATCH, *shapes[-1])]
        values = [_uniform(s, number, replica) for number, s in enumerate(shapes)]
        if rows is None:
            return values
        sizes = [shape[0] for shape in self._workload.shapes]
        return values + [tf.range(rows) * (size // rows) for size in sizes]

    def _step(self, scale_loss, apply):
        is_default = self._strategy is tf.distribute.get_strategy()

        def step(*inputs):
            if not is_default:
                # An argument has no device in a traced function, and Keras 3's sum over
                # the replicas goes by the device. This copies nothing.
                inputs = [tf.identity(value) for value in inputs]
            return apply(self._gradients(scale_loss, inputs), self._variables)

        def everywhere(*inputs):
            return self._strategy.run(step, args=inputs)

        whole = step if is_default else everywhere
        if self._job.mode == "eager":
            return whole
        return tf.function(whole, jit_compile=self._job.mode == "xla" or None)

    def _gradients(self, scale_loss, inputs):
        """The scaled gradients of one step on one replica."""
        shapes = self._workload.shapes
        if self._workload.trains:
            return self._trained(scale_loss, *inputs)
        # Called without a tape too: it tells the optimizer that the gradients are scaled.
        scale_loss(tf.constant(1.0))
        if self._workload.rows is None:
            return list(inputs)
        return [
            tf.IndexedSlices(values, indices, tf.constant(shape, tf.int32))
            for values, indices, shape in zip(inputs, inputs[len(shapes) :], shapes)
        ]

    def _trained(self, scale_loss, x, y):
        """The gradients of a dense model, ReLU before each layer, and a squared error."""
        with tf.GradientTape() as tape:
            for kernel, bias in zip(self._variables[::2], self._variables[1::2]):
                x = tf.matmul(tf.nn.relu(x), kernel) + bias
            scaled = scale_loss(tf.reduce_mean(tf.math.squared_difference(x, y)))
        return tape.gradient(scaled, self._variables)


def _uniform(shape, number, replica=0, limit=1.0):
    """Numbers between -limit and limit, made by NumPy.

    TensorFlow's allocator would keep what its own operations need on the way, and a
    step that takes it again would not show in the peak memory.
    """
    numbers = np.random.default_rng((number, replica)).random(shape, np.float32)
    return tf.convert_to_tensor((numbers - 0.5) * 2 * limit)


def in_turns(calls, rounds, repeats):
    """Time all `calls`, warmed up, in each round; return {name: seconds of each round}.

    What the machine does meanwhile is about the same for all calls of a round. The
    order is rotated, so that none always runs after the same other one; garbage is
    collected between the calls, and never in `timeit`. `repeats` calls are timed together.
    """
    names = collections.deque(calls)
    times = {name: [] for name in names}

    def repeated(call):
        for _ in range(repeats):
            call()
        devices.wait()

    gc.collect()
    gc.freeze()  # what exists by now need not be looked through again and again
    for _ in range(rounds):
        for name in names:
            gc.collect()
            devices.wait()
            seconds = timeit.timeit(functools.partial(repeated, calls[name]), number=1)
            times[name].append(seconds / repeats)
        names.rotate(-1)
    gc.unfreeze()
    return times


if __name__ == "__main__":
    main(*sys.argv[1:])
