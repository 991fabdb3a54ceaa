"""Which calls have scaled the loss and unscaled the gradients of a step.

Legacy programs call `get_scaled_loss` and `get_unscaled_gradients`, Keras 3 programs
`scale_loss` and nothing more: their gradients are unscaled by `apply`. One object
serves both, so it must know what the step at hand has done. All of this happens while
Python runs, which in a traced step means once.
"""

import dataclasses
import threading
import weakref

import tensorflow as tf

from tf_lso.scaling import replica

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


@dataclasses.dataclass
class _Step:
    """What one step has done so far, in one graph or one thread of eager code."""

    scaled_by: str | None = None
    unscaled: bool = False
    losses: int = 0  # scaled so far
    applied: int = 0  # times that gradients were applied
    ended: bool = False  # by a refusal: the next scaling call begins a new step
    order: int = 0  # of the last scaling call, among all of the optimizer

    @property
    def in_use(self):
        return self.scaled_by is not None or self.unscaled

    @property
    def is_open(self):
        """Whether gradients of a scaled loss have not been applied yet."""
        return self.in_use and self.applied < max(self.losses, 1)

    @property
    def must_unscale(self):
        return self.scaled_by == KERAS3 and not self.unscaled


class Protocol:
    """The record of the scaling calls of one optimizer."""

    def __init__(self):
        self._graphs = weakref.WeakKeyDictionary()  # graph -> {replica id: _Step}
        self._eager = threading.local()
        self._last_eager = _Step()  # of any thread: replicas have threads of their own
        self._calls = 0
        self._ever_scaled = False
        self._ever_unscaled = False
        self._traced_kinds = set()  # of functions that only apply: whether they unscale

    def __deepcopy__(self, memo):
        return type(self)()

    def __reduce__(self):
        return type(self), ()

    def scaled(self, method):
        """Note that `method` has scaled a loss.

        Raises:
          RuntimeError: if the other method has scaled a loss in this step.
        """
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
        step.scaled_by, step.unscaled = method, False
        step.losses += 1
        self._ever_scaled = True

    def unscaled(self):
        """Note that the caller has unscaled the gradients."""
        self._begin().unscaled = True
        self._ever_unscaled = True

    def apply(self):
        """Note that gradients are applied; return whether they must be unscaled first.

        Raises:
          RuntimeError: if that cannot be known, since functions of both kinds have
            scaled losses whose gradients are applied elsewhere.
        """
        own = self._own_step()
        step = self._step_to_apply(own)
        step.applied += 1
        if step is not own and not tf.executing_eagerly():
            self._traced_kinds.add(step.must_unscale)
        if step.must_unscale:
            self._ever_unscaled = True
        return step.must_unscale

    def caller_has_unscaled(self):
        """Return whether `get_unscaled_gradients` had what is to be applied now."""
        return self._step_to_apply(self._own_step()).unscaled

    def mixed(self, unscaled_by_caller):
        """Return a warning if gradients may reach a function traced for the other kind.

        A traced function that only applies keeps what it was traced for, and no Python
        runs in it that could look at the gradients it gets later.
        """
        if unscaled_by_caller not in self._traced_kinds:
            return None
        traced, now = ("scale_loss()", "get_unscaled_gradients()")
        if not unscaled_by_caller:
            traced, now = now, traced
        return (
            f"{now} was called, but a function that only applies gradients was traced for "
            f"those of {traced}. Gradients passed to it now would be unscaled twice or not "
            "at all: use one protocol for it, or scale and apply in one function."
        )

    def forgotten(self):
        """Return the warning that this use of the optimizer deserves, or None.

        As in TensorFlow 2.2-2.15 this looks at all calls so far, since scaling,
        unscaling and applying may stand in different functions.
        """
        what = _FORGOTTEN.get((self._ever_scaled, self._ever_unscaled))
        if what is None:
            return None
        return (
            f"{what} before apply_gradients(), so the gradients are not what they should "
            f"be and the model will likely be worse. Call each once:{_EXAMPLE}"
        )

    def _here(self):
        """The steps of the graph being built, or of this thread's eager code."""
        if tf.executing_eagerly():
            return self._eager.__dict__
        return self._graphs.setdefault(tf.compat.v1.get_default_graph(), {})

    def _begin(self):
        """The step that a scaling call belongs to: a new one after an apply."""
        steps, number = self._here(), replica.replica_id()
        if number not in steps or steps[number].applied or steps[number].ended:
            steps[number] = _Step()
        if tf.executing_eagerly():
            self._last_eager = steps[number]
        self._calls += 1
        steps[number].order = self._calls
        return steps[number]

    def _step_to_apply(self, own):
        """The step whose gradients are applied now.

        It was scaled here or in a graph around this one (this one is a branch or the
        body of a loop); or else in a function or thread that leaves applying to
        others.
        """
        if own.is_open:
            return own
        elsewhere = self._left_open()
        # A traced function does not run this code again, so its step stays open: what
        # is changed is a copy.
        newest = dataclasses.replace(
            max(elsewhere, key=lambda step: step.order, default=own)
        )
        kinds = {step.must_unscale for step in elsewhere}
        if own.in_use and own.order > newest.order:
            kinds.add(own.must_unscale)
        if len(kinds) == 2:
            raise RuntimeError(
                "apply_gradients() cannot know whether these gradients are still scaled: "
                "the loss was scaled in another function, and both scale_loss() and "
                "get_scaled_loss() have been used. Call get_unscaled_gradients() in the "
                "function that calls apply_gradients()."
            )
        return newest if elsewhere else own

    def _own_step(self):
        number = replica.replica_id()
        if tf.executing_eagerly():
            return self._eager.__dict__.get(number, _Step())
        for graph in _graph_and_outer(tf.compat.v1.get_default_graph()):
            step = self._graphs.get(graph, {}).get(number)
            if step is not None and step.in_use:
                return step
        return _Step()

    def _left_open(self):
        """Open steps of other functions and threads; those of inner graphs before all."""
        graphs = list(self._graphs.items())
        if not tf.executing_eagerly():
            here = tf.compat.v1.get_default_graph()
            inner = [item for item in graphs if here in _graph_and_outer(item[0])]
            steps = [
                step for _, here in inner for step in here.values() if step.is_open
            ]
            if steps:
                return steps
        steps = [step for _, here in graphs for step in here.values()]
        return [step for step in (*steps, self._last_eager) if step.is_open]


def _graph_and_outer(graph):
    """`graph` and those it is a branch, a loop's body or a function of."""
    graphs = []
    while graph is not None:
        graphs.append(graph)
        graph = getattr(graph, "outer_graph", None)
    return graphs
