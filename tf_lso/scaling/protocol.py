"""Find out whether the gradients of a step must still be unscaled, and by what.

Legacy programs call `get_scaled_loss` and `get_unscaled_gradients`. Keras 3 programs call
`scale_loss` only, and `apply` unscales their gradients. One object serves both, so it
must know what the current step has done, and with which scale.

Three sources tell it, the surest first:

1. Tensors that `get_unscaled_gradients` has returned are known by identity.
2. A record of the calls, one for each thread of eager code and for each graph. Python
   writes it, so a traced step writes it once, while it is traced. It holds the very
   scale that the loss was multiplied by.
3. If one function scales and another applies: a variable (`in_flight.InFlight`).

If two of them disagree, the step is refused.
"""

import contextlib
import dataclasses
import threading
import weakref

import tensorflow as tf

from tf_lso.scaling import in_flight, replica
from tf_lso.scaling import returned as returned_lib

LEGACY = "get_scaled_loss"
KERAS3 = "scale_loss"

_EXAMPLE = """
    with tf.GradientTape() as tape:
      loss = loss_fn()
      scaled_loss = opt.get_scaled_loss(loss)
    scaled_grads = tape.gradient(scaled_loss, vars)
    grads = opt.get_unscaled_gradients(scaled_grads)
    opt.apply_gradients(zip(grads, vars))"""

_FORGOTTEN = {
    (False, False): "get_scaled_loss() and get_unscaled_gradients() were not called",
    (False, True): "get_unscaled_gradients() was called but get_scaled_loss() was not",
    (True, False): "get_scaled_loss() was called but get_unscaled_gradients() was not",
}

_THREADS = 64  # open eager steps of all threads that are remembered, the newest

_AMBIGUOUS = (
    "apply_gradients() cannot know whether, or by which scale, these gradients are still "
    "scaled: {}. Scale, unscale and apply in one function, or call "
    "get_unscaled_gradients() in the function that calls apply_gradients()."
)


@dataclasses.dataclass
class _Step:
    """What one step has done so far, in one graph or one thread of eager code."""

    scaled_by: str | None = None
    scale: object = None  # callable that returns the scale of the loss
    unscaled: bool = False
    loss: object = None  # callable that returns the loss before it was scaled
    losses: int = 0  # scaled so far
    applied: int = 0  # times that gradients were applied
    ended: bool = False  # refused; the next scaling call begins a new step
    scales_differ: bool = False  # whether its losses had different scales
    before: object = None  # callable that returns what was in flight before the step
    is_elsewhere: bool = False  # known only from what is in flight
    previous: object = None  # the step before, in the same place
    replica: int | None = None
    thread: object = None  # of eager code
    order: int = 0  # number of its last scaling call among all of the optimizer

    @property
    def in_use(self):
        return self.scaled_by is not None or self.unscaled

    @property
    def is_open(self):
        """Whether gradients of a scaled loss have not been applied yet."""
        waits = self.applied < max(self.losses, 1)
        return self.in_use and waits and not self.ended

    @property
    def must_unscale(self):
        return self.scaled_by == KERAS3 and not self.unscaled

    @property
    def divisor(self):
        """What the apply must divide by, a float32 scalar tensor or None."""
        return self.scale() if self.must_unscale else None


class Protocol:
    """The record of the scaling calls of one optimizer."""

    def __init__(self):
        self._graphs = weakref.WeakKeyDictionary()  # graph -> {replica id: _Step}
        self._eager = threading.local()
        self._of_threads = []  # eager steps of all threads; each replica has its own
        self._calls = 0
        self._thread = threading.local()  # set by `counted_as` and `dividing_by`
        self._ever_scaled = False
        self._ever_unscaled = False
        self._passes_on = False  # whether a traced function reads what is in flight
        self._losses = returned_lib.Returned()
        self.unscaled_gradients = returned_lib.Returned()
        # In a graph of TensorFlow 1 Python sees all calls, so no variable is needed.
        with tf.init_scope():
            self.in_flight = in_flight.InFlight() if tf.executing_eagerly() else None

    def __deepcopy__(self, memo):
        return type(self)()

    def __reduce__(self):
        return type(self), ()

    # --- Scaling.

    @contextlib.contextmanager
    def counted_as(self, method):
        """Count scaling calls in this block as calls of `method`."""
        self._thread.counted_as = method
        try:
            yield
        finally:
            self._thread.counted_as = None

    @contextlib.contextmanager
    def dividing_by(self, divisor):
        """Make unscaling calls in this block divide by `divisor`."""
        self._thread.divisor = divisor
        try:
            yield
        finally:
            self._thread.divisor = None

    @property
    def calls(self):
        """How many scaling and unscaling calls were noted so far."""
        return self._calls

    @property
    def loss(self):
        """The loss of the current step before it was scaled, or None."""
        loss = self._own_step().loss
        return None if loss is None else loss()

    @loss.setter
    def loss(self, value):
        self._own_step().loss = returned_lib.held(value)

    def refuse_scaled(self, loss):
        """Raise RuntimeError if this optimizer has returned `loss` as scaled."""
        if self._losses.any_of([loss]):
            raise RuntimeError(
                f"The loss {loss!r} is scaled already: get_scaled_loss() or scale_loss() "
                "has returned it. Pass the loss of the model, and scale it once."
            )

    def scaled(self, method, scale, result):
        """Note that `method` has scaled a loss.

        Args:
          method: `LEGACY` or `KERAS3`.
          scale: float32 scalar tensor that the loss was multiplied by.
          result: what the method returns.

        Raises:
          RuntimeError: if the other method has scaled a loss in this step, or in another
            function whose gradients have not been applied.
        """
        method = getattr(self._thread, "counted_as", None) or method
        step = self._begin()
        if step.scaled_by not in (None, method):
            step.ended = True
            raise RuntimeError(
                f"{method}() was called in a step in which {step.scaled_by}() has scaled "
                "the loss already; scaling it twice gives wrong gradients. Keras 3's `fit` "
                "calls scale_loss() itself: do not call get_scaled_loss() inside it. In a "
                "custom loop use either get_scaled_loss() with get_unscaled_gradients(), "
                "or scale_loss() alone."
            )
        if step.losses and tf.executing_eagerly() and step.scale is not None:
            step.scales_differ |= float(step.scale()) != float(scale)
        step.scaled_by, step.unscaled = method, False
        step.scale = returned_lib.held(scale)
        step.losses += 1
        self._ever_scaled = True
        self._tell_others(step, scale)
        self._losses.note([result], [None], scale)

    def _tell_others(self, step, scale):
        """Tell functions that only apply what a step has scaled."""
        if self.in_flight is None:
            return
        if tf.executing_eagerly() and not self._passes_on:
            return  # no function reads it
        other = (not step.must_unscale) in self._kinds_left_open()
        if self._passes_on and other and not tf.executing_eagerly():
            step.ended = True
            raise RuntimeError(_AMBIGUOUS.format("both protocols have scaled losses"))
        if step.before is None:
            step.before = returned_lib.held(self.in_flight.read())
        self.in_flight.open(scale, step.must_unscale)

    # --- Unscaling.

    def scale_of_gradients(self, gradients, loss_scale):
        """Return the scale by which to unscale gradients: that of their own loss.

        Args:
          gradients: list of gradients.
          loss_scale: float32 scalar tensor, the scale as it is now.

        Raises:
          RuntimeError: if `get_unscaled_gradients` has returned one of them, or the
            scale cannot be known.
        """
        if self.unscaled_gradients.any_of(gradients):
            raise RuntimeError(
                "get_unscaled_gradients() got gradients that it has returned, which are "
                "unscaled already. Call it once for each gradient."
            )
        divisor = getattr(self._thread, "divisor", None)
        if divisor is not None:
            return divisor
        step = self._source(lambda step: step.scale)
        if step.is_elsewhere and not tf.executing_eagerly():
            return self.in_flight.scale(otherwise=loss_scale)
        return loss_scale if step.scale is None else step.scale()

    def unscaled(self, gradients, sources, scale):
        """Note that the caller has unscaled gradients.

        Args:
          gradients: list of the unscaled gradients, and None.
          sources: list of what each was before.
          scale: float32 scalar tensor that they were divided by.
        """
        self.unscaled_gradients.note(gradients, sources, scale)
        step = self._begin()
        is_told = step.before is not None and step.must_unscale
        step.unscaled = True
        self._ever_unscaled = True
        if is_told or (step.scaled_by is None and self._others_matter()):
            self.in_flight.unscaled()
            step.scale = step.scale or returned_lib.held(scale)

    # --- Applying.

    def divisor(self, gradients):
        """Return what the gradients must still be divided by.

        Args:
          gradients: list of gradients, without None.

        Returns:
          A float32 scalar tensor, or None if they are unscaled.

        Raises:
          RuntimeError: if that cannot be known.
        """
        return self._step_to_apply(gradients).divisor

    def apply(self, gradients):
        """Return the `divisor`, and note that the gradients are applied."""
        step = self._step_to_apply(gradients)
        divisor = step.divisor
        step.applied += 1
        if step.must_unscale and step.losses:
            self._ever_unscaled = True
        if step.before is not None:
            if not step.is_open or not tf.executing_eagerly():
                self.in_flight.set(step.before())
        elif step.is_elsewhere or step.scaled_by is None:
            if step.is_elsewhere and tf.executing_eagerly():
                # A second apply of the same gradients finds it here.
                self._here()[replica.replica_id()] = step
            if self._others_matter():
                self.in_flight.close()
        return divisor

    def _step_to_apply(self, gradients):
        if gradients and self.unscaled_gradients.all_of(gradients):
            own = self._own_step()
            return _Step(unscaled=True) if own.must_unscale else own
        return self._source(lambda step: step.divisor)

    # --- Which step gradients belong to.

    def _source(self, what):
        """Return the step that gradients belong to.

        Args:
          what: callable that takes a step and returns what matters of it: a tensor, a
            callable that returns one, or None.
        """
        if tf.executing_eagerly():
            return self._eager_source(what)
        return self._traced_source()

    def _traced_source(self):
        own = self._own_step()
        if own.is_open or self.in_flight is None:
            return own
        inner = self._left_open_within()
        if own.in_use and not inner:
            return own
        kinds = {step.must_unscale for step in inner}
        if not inner:
            eager = [step for step in self._of_threads if step.is_open]
            kinds = self._kinds_left_open() | {step.must_unscale for step in eager}
        if len(kinds) == 2:
            raise RuntimeError(_AMBIGUOUS.format("both protocols have scaled losses"))
        if not inner:
            self._tell_of_eager_step()
        self._ever_unscaled |= True in kinds
        return self._elsewhere()

    def _eager_source(self, what):
        own = self._own_step()
        kinds = self._kinds_left_open()
        if not own.is_open and len(kinds) == 2:
            raise RuntimeError(_AMBIGUOUS.format("both protocols have scaled losses"))
        here = own
        if own.previous and own.previous.is_open and not own.is_open:
            self._refuse_others(own, own.previous, what)
        for step in self._open_in_other_threads():
            if not here.is_open:
                here = step
            elif not step.thread.is_alive():
                # Its thread has ended, so only another thread can apply its gradients.
                self._refuse_others(here, step, what)
        if here.is_open and here.scales_differ:
            here.ended = True
            raise RuntimeError(_AMBIGUOUS.format("losses had different scales"))
        if not kinds or self.in_flight is None:
            return here if here.is_open else own
        there = self._elsewhere()
        if not here.is_open:
            return own if own.in_use and there.applied else there
        if there.is_open:
            self._refuse_others(here, there, what)
        return here

    def _refuse_others(self, here, there, what):
        if _number(what(here)) != _number(what(there)):
            here.ended = there.ended = True
            raise RuntimeError(
                _AMBIGUOUS.format("two losses were scaled and not applied yet")
            )

    def _elsewhere(self):
        """Return the step of another function, as the variable describes it."""
        numbers = self.in_flight.read()
        if not tf.executing_eagerly():
            return _Step(
                scaled_by=KERAS3,
                scale=returned_lib.held(self.in_flight.divisor()),
                is_elsewhere=True,
            )
        scale, is_open = numbers.numpy()
        step = _Step(is_elsewhere=True, applied=int(not is_open))
        if scale:
            step.scaled_by = KERAS3 if scale > 0 else LEGACY
            step.unscaled = scale < 0
            step.losses = 1
            step.scale = returned_lib.held(tf.abs(numbers[0]))
        return step

    def _others_matter(self):
        """Whether another function may have scaled, or may apply."""
        if self.in_flight is None:
            return False
        if not tf.executing_eagerly():
            return True
        return self._passes_on or bool(self._kinds_left_open())

    def _tell_of_eager_step(self):
        """Tell a function that is being traced what eager code has scaled so far."""
        steps = sorted(self._of_threads, key=lambda step: (step.is_open, step.order))
        step = steps[-1] if steps else _Step()
        if not self._passes_on and step.scaled_by is not None:
            with tf.init_scope():
                there = self._elsewhere()
                if there.is_open and step.is_open:
                    self._refuse_others(step, there, lambda step: step.divisor)
                elif step.is_open or not there.in_use:
                    step.before = returned_lib.held(self.in_flight.read())
                    self.in_flight.open(step.scale(), step.must_unscale)
        self._passes_on = True

    def forgotten(self):
        """Return a warning if scaling or unscaling was forgotten, else None.

        As in TensorFlow 2.2-2.15 this looks at all calls so far, since scaling,
        unscaling and applying may happen in different functions.
        """
        what = _FORGOTTEN.get((self._ever_scaled, self._ever_unscaled))
        if what is None:
            return None
        return (
            f"{what} before apply_gradients(), so the gradients are not what they should "
            f"be and the model will likely be worse. Call each once:{_EXAMPLE}"
        )

    # --- Steps.

    def _here(self):
        """Return the steps of the graph being built, or of this thread's eager code."""
        if tf.executing_eagerly():
            return self._eager.__dict__
        return self._graphs.setdefault(tf.compat.v1.get_default_graph(), {})

    def _begin(self):
        """Return the step that a scaling call belongs to; after an apply it is a new one."""
        steps, number = self._here(), replica.replica_id()
        step = steps.get(number, _Step(ended=True))
        if step.applied or step.ended or self._was_applied_elsewhere(step):
            steps[number] = _Step(replica=number, previous=step)
            step.previous = None
            if tf.executing_eagerly():
                steps[number].thread = threading.current_thread()
                kept = [step for step in self._of_threads if step.is_open]
                self._of_threads = [*kept[-_THREADS:], steps[number]]
        self._calls += 1
        steps[number].order = self._calls
        return steps[number]

    def _was_applied_elsewhere(self, step):
        """Whether a traced function has applied what an eager step has scaled."""
        if step.before is None or not tf.executing_eagerly() or not self._passes_on:
            return False
        if not self._elsewhere().applied:
            return False
        step.applied = step.losses
        return True

    def _own_step(self):
        """Return the step of this thread, or of the graph being built or one around it."""
        number = replica.replica_id()
        if tf.executing_eagerly():
            return self._eager.__dict__.get(number, _Step())
        for graph in _graph_and_outer(tf.compat.v1.get_default_graph()):
            step = self._graphs.get(graph, {}).get(number)
            if step is not None and step.in_use:
                return step
        return _Step()

    def _open_in_other_threads(self):
        """Return open eager steps of other threads, newest first; this replica's if any."""
        number, thread = replica.replica_id(), threading.current_thread()
        steps = [s for s in self._of_threads if s.is_open and s.thread is not thread]
        own = [step for step in steps if step.replica == number]
        return (own or steps)[::-1]

    def _kinds_left_open(self):
        """Return the `must_unscale` of all open steps in traced functions, a set."""
        return {
            step.must_unscale
            for graph, steps in list(self._graphs.items())
            if _is_complete(graph)
            for step in steps.values()
            if step.is_open
        }

    def _left_open_within(self):
        """Return open steps of the branches and loops in the graph being built."""
        here = tf.compat.v1.get_default_graph()
        return [
            step
            for graph, steps in list(self._graphs.items())
            if graph is not here and here in _graph_and_outer(graph)
            for step in steps.values()
            if step.is_open
        ]


def _number(value):
    """Return a tensor, a callable that returns one, or None as a comparable number."""
    value = value() if callable(value) else value
    return 1.0 if value is None else float(value)


def _is_complete(graph):
    """Whether the function of a graph was traced to its end.

    A trace that failed hands out nothing. A function that scales always has control
    outputs: the operations that set what is in flight.
    """
    return bool(getattr(graph, "control_outputs", True))


def _graph_and_outer(graph):
    """Return `graph`, then the graphs that it is a branch, a loop or a function of."""
    graphs = []
    while graph is not None:
        graphs.append(graph)
        graph = getattr(graph, "outer_graph", None)
    return graphs
