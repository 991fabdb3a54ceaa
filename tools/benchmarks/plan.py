"""Which processes a run needs, and what each has to measure. No TensorFlow here."""

from typing import NamedTuple

from tools.benchmarks import choices, workloads


class Job(NamedTuple):
    """What one fresh process does (or one for each worker of the strategy).

    Attributes:
      what: "time", or "memory" for the peak memory of one candidate.
      mode: Name of the mode.
      strategy: Name of the strategy.
      family: Name of the optimizer family.
      workloads: Names of the workloads, one after the other.
      candidates: Names of the candidates, interleaved.
      rounds: How often each is timed, or how many steps are taken for the memory.
    """

    what: str
    mode: str
    strategy: str
    family: str
    workloads: list[str]
    candidates: list[str]
    rounds: int

    @property
    def title(self):
        parts = [self.what, self.mode, self.strategy, self.family]
        if self.what == "memory":
            parts += [*self.workloads, *self.candidates]
        return ", ".join(parts)


_MEMORY_STEPS = 3


def jobs(*, modes, strategies, families, workloads, candidates, rounds, memory):
    """The jobs of a run.

    Args:
      modes, strategies, families, workloads, candidates: lists of names. "bare" is
        added to the candidates, since the others are compared with it.
      rounds: how often each candidate is timed.
      memory: whether to measure the peak memory too.

    Returns:
      A list of jobs, and a list of records for what cannot be measured.
    """
    found, left_out = [], []
    for strategy in strategies:
        for mode in modes:
            reason = choices.why_not(mode, strategy)
            for family in families:
                chosen = [
                    name
                    for name in choices.candidates_of(family)
                    if name in candidates or name == choices.BARE
                ]
                job = Job("time", mode, strategy, family, workloads, chosen, rounds)
                if reason:
                    left_out += skipped(job, reason)
                    continue
                found.append(job)
                if memory:
                    found += [
                        job._replace(
                            what="memory",
                            workloads=[workload],
                            candidates=[candidate],
                            rounds=_MEMORY_STEPS,
                        )
                        for workload in workloads
                        for candidate in chosen
                    ]
    return found, left_out


def skipped(job, reason):
    """Records that say why a job has no figures."""
    return [
        record_of(job, workload, candidate, skipped=reason)
        for workload in job.workloads
        for candidate in job.candidates
    ]


def record_of(job, workload, candidate, **measured):
    """What was measured of one candidate, as it stands in the JSON."""
    return {
        "what": job.what,
        "workload": workload,
        "mode": job.mode,
        "strategy": job.strategy,
        "family": job.family,
        "candidate": candidate,
        **measured,
    }


def bytes_needed(job, workload):
    """About how much memory a job takes for a workload.

    The variables and the gradients of each replica, a slot for each candidate, and the
    rescaled gradients with as much again for the work of a step.
    """
    strategy = choices.STRATEGIES[job.strategy]
    replicas = strategy.devices * strategy.processes
    workload = workloads.get(workload)
    slots = len(job.candidates) if workload.momentum else 0
    variables = workload.variable_bytes * (1 + slots)
    return replicas * (variables + 4 * workload.bytes)
