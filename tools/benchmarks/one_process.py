"""What runs in a fresh process: one job. `python -m tools.benchmarks.one_process`."""

import gc
import json
import pathlib
import sys

import tensorflow as tf

from tools.benchmarks import (
    candidates,
    counting,
    measure,
    modes,
    plan,
    replicas,
    tensors,
    workloads,
)

_WARM_UP = 2


def main(arguments):
    """Do a job and write its records.

    Args:
      arguments: the job as JSON, and the file to write to.
    """
    job = plan.Job(**json.loads(arguments[0]))
    strategy = replicas.start(job.strategy)
    records = []
    for name in job.workloads:
        records += _of_workload(job, workloads.get(name), strategy)
        if replicas.is_chief(strategy):
            # After each workload, so that what is measured stays if the next one fails.
            pathlib.Path(arguments[1]).write_text(json.dumps(records))
        gc.collect()


def _of_workload(job, workload, strategy):
    needed, free = plan.bytes_needed(job, workload.name), counting.available_bytes()
    if free is not None and needed > free:
        reason = (
            f"needs about {needed / 1e9:.1f} GB of memory, {free / 1e9:.1f} are free"
        )
        return plan.skipped(job._replace(workloads=[workload.name]), reason)
    setting = Setting(job, workload, strategy)
    for name in job.candidates:
        setting.enter(name)
    return setting.timed() if job.what == "time" else setting.with_peak_memory()


class Setting:
    """The candidates of one workload, ready to be called.

    Args:
      job: the Job.
      workload: the Workload.
      strategy: the strategy, or None.
    """

    def __init__(self, job, workload, strategy):
        self._job = job
        self._workload = workload
        self._strategy = strategy
        self._variables = tensors.variables_of(workload, strategy)
        self._inputs = tensors.inputs_of(workload, strategy)
        self._functions = {}  # of the candidates that run
        self._records = {}

    def enter(self, name):
        """Make a candidate and let it take its first steps; note it if it cannot."""
        try:
            candidate = candidates.make(
                name,
                self._job.family,
                self._workload,
                self._variables,
                self._strategy,
                self._job.mode,
                self._sample,
            )
            function = self._step(candidate)
            for _ in range(_WARM_UP):
                function(*self._inputs)
        except Exception as error:
            # A peer that cannot do this is a result, not an end of the run.
            reason = f"{type(error).__name__}: {_first_line(error)}"
            self._records[name] = self._record(name, skipped=reason)
            return
        self._functions[name] = function
        self._records[name] = self._record(name, note=candidate.note)

    def timed(self):
        """The records, with the seconds of each round and what the graph holds."""
        steps = {name: self._bound(f) for name, f in self._functions.items()}
        if steps:
            times = measure.rounds(steps, self._job.rounds, self._workload.repeats)
            for name, seconds in times.items():
                self._records[name] |= {"seconds": seconds, **self._counts(name)}
        return list(self._records.values())

    def with_peak_memory(self):
        """The records, with the most memory that the process held during steps."""
        for name, function in self._functions.items():
            gc.collect()
            counting.reset_peak()
            for _ in range(self._job.rounds):
                function(*self._inputs)
            self._records[name]["peak_bytes"] = counting.peak_bytes()
        return list(self._records.values())

    def _record(self, name, **measured):
        return plan.record_of(self._job, self._workload.name, name, **measured)

    def _bound(self, function):
        return lambda: function(*self._inputs)

    def _step(self, candidate):
        def replica_step(*inputs):
            gradients = tensors.gradients_of(
                self._workload, candidate.scale_loss, inputs, self._variables
            )
            return candidate.apply(gradients, self._variables)

        step = replicas.everywhere(self._strategy, replica_step)
        return modes.wrapped(self._job.mode, step)

    def _sample(self):
        """Gradients as those of this process's first replica, outside of any step."""
        if self._workload.trains:
            # Of the same shapes; which numbers they hold does not matter.
            return [tf.convert_to_tensor(variable) for variable in self._variables]
        inputs = self._inputs
        if self._strategy is not None:
            local = self._strategy.experimental_local_results
            inputs = [local(value)[0] for value in inputs]
        return tensors.gradients_of(
            self._workload, lambda loss: loss, inputs, self._variables
        )

    def _counts(self, name):
        function = self._functions[name]
        if self._job.mode == "eager":
            return {}
        counts = {"traces": counting.traces(function)}
        graph = function.get_concrete_function(*self._inputs).graph
        counts["operations"] = sum(counting.operations(graph).values())
        counts["collectives"] = counting.collectives(graph)
        counts["host_operations"] = counting.host_operations(graph)
        return counts


def _first_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else ""


if __name__ == "__main__":
    main(sys.argv[1:])
