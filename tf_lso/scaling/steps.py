"""The record of what each thread of eager code and each graph has scaled.

It is written while Python runs, which in a traced step means once.
"""

import dataclasses
import threading
import weakref

import tensorflow as tf

from tf_lso import tf_private
from tf_lso.scaling import replica

LEGACY = "get_scaled_loss"
KERAS3 = "scale_loss"

# Eager steps that are kept of threads that ended without an apply: the newest.
_THREADS = 64


@dataclasses.dataclass
class Step:
    """What one step has done so far, in one graph or one thread of eager code."""

    scaled_by: str | None = None
    scale: object = None  # callable that returns the scale of the loss
    unscaled: bool = False
    loss: object = None  # callable that returns the loss before it was scaled
    losses: int = 0  # scaled so far
    applied: int = 0  # times that gradients were applied
    ended: bool = False  # by a refusal: the next scaling call begins a new step
    scales_differ: bool = False  # of the losses
    before: object = None  # callable: what was in flight before the step
    is_elsewhere: bool = False  # known only by what is in flight
    previous: object = None  # the step before, in the same place
    replica: int | None = None
    thread: object = None  # of eager code
    order: int = 0  # of the last scaling call, among all of the optimizer

    @property
    def in_use(self):
        """Whether a loss was scaled or gradients were unscaled."""
        return self.scaled_by is not None or self.unscaled

    @property
    def is_open(self):
        """Whether gradients of a scaled loss have not been applied yet."""
        waits = self.applied < max(self.losses, 1)
        return self.in_use and waits and not self.ended

    @property
    def must_unscale(self):
        """Whether the apply must divide the gradients."""
        return self.scaled_by == KERAS3 and not self.unscaled

    @property
    def divisor(self):
        """What the apply must divide by, a float32 scalar tensor or None."""
        return self.scale() if self.must_unscale else None


class Steps:
    """The steps of one optimizer, of each graph and each thread of eager code."""

    def __init__(self):
        self._graphs = weakref.WeakKeyDictionary()  # graph -> {replica id: Step}
        self._eager = threading.local()
        self._of_threads = []  # eager steps: replicas have threads of their own
        self.calls = 0  # scaling and unscaling calls so far

    def begin(self, is_done):
        """Return the step that a scaling call belongs to: a new one after an apply.

        Args:
          is_done: callable, step -> whether another function has applied its gradients.
        """
        steps, number = self._here(), replica.replica_id()
        step = steps.get(number, Step(ended=True))
        if step.applied or step.ended or is_done(step):
            steps[number] = Step(replica=number, previous=step)
            step.previous = None
            if tf.executing_eagerly():
                steps[number].thread = threading.current_thread()
                kept = [step for step in self._of_threads if step.is_open]
                self._of_threads = [*kept[-_THREADS:], steps[number]]
        self.calls += 1
        steps[number].order = self.calls
        return steps[number]

    def keep(self, step):
        """Make `step` the one of this thread or graph."""
        self._here()[replica.replica_id()] = step

    def _here(self):
        if tf.executing_eagerly():
            return self._eager.__dict__
        return self._graphs.setdefault(tf.compat.v1.get_default_graph(), {})

    def own(self):
        """The step of this thread, or of the graph being built or one around it."""
        number = replica.replica_id()
        if tf.executing_eagerly():
            return self._eager.__dict__.get(number, Step())
        for graph in _graph_and_outer(tf.compat.v1.get_default_graph()):
            step = self._graphs.get(graph, {}).get(number)
            if step is not None and step.in_use:
                return step
        return Step()

    def eager_and_open(self):
        """Return the open steps of eager code, the newest first."""
        return [step for step in self._of_threads if step.is_open][::-1]

    def newest_eager(self):
        """Return the newest open step of eager code, or else the newest."""
        steps = sorted(self._of_threads, key=lambda step: (step.is_open, step.order))
        return steps[-1] if steps else Step()

    def open_in_other_threads(self):
        """Open eager steps of other threads, the newest first; of this replica if any."""
        number, thread = replica.replica_id(), threading.current_thread()
        steps = [step for step in self.eager_and_open() if step.thread is not thread]
        return [step for step in steps if step.replica == number] or steps

    def kinds_left_open(self):
        """Whether gradients must be unscaled that traced functions hand out, a set.

        A function that failed hands out none. One that scales has operations that must
        run: those that tell what is in flight.
        """
        return {
            step.must_unscale
            for graph, steps in list(self._graphs.items())
            if tf_private.is_complete(graph)
            for step in steps.values()
            if step.is_open
        }

    def left_open_within(self):
        """Open steps of the branches and loops in the graph being built."""
        here = tf.compat.v1.get_default_graph()
        return [
            step
            for graph, steps in list(self._graphs.items())
            if graph is not here and here in _graph_and_outer(graph)
            for step in steps.values()
            if step.is_open
        ]


def _graph_and_outer(graph):
    """`graph` and those it is a branch, a loop's body or a function of."""
    graphs = []
    while graph is not None:
        graphs.append(graph)
        graph = tf_private.graph_around(graph)
    return graphs
