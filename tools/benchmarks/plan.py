"""What can be chosen, and which processes that needs. No TensorFlow here."""

import itertools
from typing import NamedTuple

# Name in commands, files and tables -> what plots call it.
MODES = {"eager": "in eager mode", "function": "in a tf.function", "xla": "under XLA"}
# Family of optimizers -> the framework that has it.
FAMILIES = {"keras3": "Keras 3", "legacy": "tf_keras", "new": "tf_keras"}
# Strategy -> how many processes it has, and what plots call it.
STRATEGIES = {
    "default": (1, "one device"),
    "mirrored2": (1, "two replicas"),
    "mirrored4": (1, "four replicas"),
    "multiworker2": (2, "two workers"),
}
BARE, PEER, OURS, FLOOR = "bare", "peer", "tf_lso", "floor"
LEGACY_PROTOCOL, FIXED = "tf_lso legacy protocol", "tf_lso fixed"
# Name in commands and files -> name in tables and plots.
CANDIDATES = {
    BARE: "no loss scaling",
    PEER: "the framework's own",
    OURS: "tf_lso",
    LEGACY_PROTOCOL: "tf_lso, legacy calls",
    FIXED: "tf_lso, fixed scale",
    FLOOR: "check and divide only",
}
_MEMORY_STEPS = 3


class Job(NamedTuple):
    """What one fresh process does (or one for each worker of the strategy)."""

    what: str  # "time", or "memory" for the peak memory of one candidate
    mode: str
    strategy: str
    family: str
    workload: str
    candidates: list[str]  # they take turns
    rounds: int  # how often each is timed; steps, for the memory


def title(candidate, family):
    """What tables and plots call a candidate: the framework's own by its framework."""
    return FAMILIES[family] if candidate == PEER else CANDIDATES[candidate]


def candidates_of(family):
    """The names of the candidates that a family has, bare first."""
    # tf_keras's own optimizers know only the legacy protocol: OURS uses it there.
    return [n for n in CANDIDATES if n != LEGACY_PROTOCOL or family == "keras3"]


def jobs(chosen):
    """The jobs of a run, for the options of the command.

    "bare" is added to the candidates, since the others are compared with it.
    """
    found = []
    for mode, strategy, family, workload in itertools.product(
        chosen.modes, chosen.strategies, chosen.families, chosen.workloads
    ):
        names = [n for n in candidates_of(family) if n in [*chosen.candidates, BARE]]
        job = Job("time", mode, strategy, family, workload, names, chosen.rounds)
        found.append(job)
        if chosen.memory:
            alone = job._replace(what="memory", rounds=_MEMORY_STEPS)
            found += [alone._replace(candidates=[name]) for name in names]
    return found


def skipped(job, reason):
    """Records that say why a job has no figures."""
    return [record_of(job, name, skipped=reason) for name in job.candidates]


def record_of(job, candidate, **measured):
    """What was measured of one candidate, as it stands in the JSON."""
    return {**dict(zip(Job._fields[:5], job)), "candidate": candidate, **measured}
