"""Decide whether gradients are still scaled. The scale of a loss is not remembered.

One optimizer supports two protocols. A legacy program calls `get_scaled_loss` and
`get_unscaled_gradients`, and applies unscaled gradients. A Keras 3 program calls only
`scale_loss`, and the step divides its gradients. The gradients themselves do not show whether
they are scaled, so the optimizer remembers these three *scaling calls*.

A *place* is one traced function with everything that is traced inside it, or one thread of
eager code. Under a strategy, each replica of a traced function is a place of its own. A place
remembers one thing, its *pending* call. This is its last scaling call, until a step or
`get_unscaled_gradients([])` ends it. For each gradient, the first of these rules that fits
decides whether the step divides the gradient:

1. A gradient that `get_unscaled_gradients` returned is not divided. It is known by identity, so
   a clipped or summed gradient is another tensor, to which rule 2 applies.
2. The pending call of this place decides: after `scale_loss` the gradient is divided, after
   `get_scaled_loss` or `get_unscaled_gradients` it is not.
3. If this optimizer has only ever seen one protocol, in any place, that protocol decides. If it
   has seen both, the step is refused. If it has seen none, `apply`, which only Keras 3 has,
   divides, and `apply_gradients` does not.

A fourth rule keeps the protocols apart: `get_scaled_loss` and `scale_loss` raise an error while
the pending call of this place is the other of the two. It is also an error to unscale a
gradient or to scale a loss twice.

The divisor is always the loss scale as it is when `get_unscaled_gradients` is called, or when
the step begins, also if the division itself comes later (see `step`). This holds in eager code
and in traced functions, as in TensorFlow 2.0-2.15 and Keras 3.
"""

import enum
import functools
import threading
import weakref

import tensorflow as tf

from tf_lso.frameworks import graphs, log, tf_private


class ScalingCall(enum.Enum):
    """The scaling calls. The values are the names of the optimizer's methods."""

    GET_SCALED_LOSS = "get_scaled_loss"
    GET_UNSCALED_GRADIENTS = "get_unscaled_gradients"
    SCALE_LOSS = "scale_loss"


_LOSS_CALLS = (ScalingCall.GET_SCALED_LOSS, ScalingCall.SCALE_LOSS)

_SEEN_BOTH = (
    "apply_gradients() cannot know whether these gradients are still scaled: both "
    "get_scaled_loss() and scale_loss() have scaled losses, in different functions or "
    "threads. Scale, unscale and apply in one function, or apply exactly what "
    "get_unscaled_gradients() returns, or use a second optimizer for one of the two "
    "protocols. See `tf-lso help waiting-gradients`"
)
_PENDING = (
    "{call}() was called while a loss that {other}() has scaled is neither unscaled nor "
    "applied. Use one of the two in a step: get_scaled_loss() and "
    "get_unscaled_gradients(), or scale_loss() alone, as Keras 3's `fit` does; scaling "
    "the loss twice would give wrong gradients. To finish the other step, apply its "
    "gradients. To drop it, call get_unscaled_gradients([]). See "
    "`tf-lso help two-protocols`"
)
_SCALED_TWICE = (
    "The loss {loss!r} is scaled already: get_scaled_loss() or scale_loss() returned it. "
    "Pass the loss of the model, and scale it once."
)
_UNSCALED_TWICE = (
    "get_unscaled_gradients() got gradients that it has returned, which are unscaled "
    "already. Call it once for each gradient."
)
_ASSUMED = (
    "{call}() is called, but a tf.function that only applies gradients was traced before. "
    "That function expects {gradients}. Scale, unscale and apply in one function, or call "
    "get_unscaled_gradients() in that function. See `tf-lso help waiting-gradients`"
)
_FORGOTTEN = (
    "{} before apply_gradients(), so the gradients are wrong or vanish, and the model will "
    "likely be worse. Call each once: scaled_loss = opt.get_scaled_loss(loss) inside the "
    "tape, and grads = opt.get_unscaled_gradients(scaled_grads) before apply_gradients(). "
    "See `tf-lso help forgotten`"
)


class Returned:
    """Remembers the tensors that an optimizer has returned, without keeping them alive."""

    def __init__(self):
        # Maps the id of each tensor to weak references to the tensor and to its `Quotient`.
        self._tensors = {}

    def add(self, result, quotient=None):
        """Remember a tensor, slices or a callable.

        `quotient` is the `Quotient` whose value the result is, or None.
        """
        if result is None:
            return
        result = _tensor(result)
        # When a tensor is deleted, Python calls `forget` before another object can get the id
        # of the tensor. So an id never stands for the wrong tensor.
        forget = functools.partial(self._tensors.pop, id(result))
        origin = None if quotient is None else quotient.reference()
        self._tensors[id(result)] = weakref.ref(result, forget), origin

    def has(self, value):
        return id(_tensor(value)) in self._tensors

    def quotient(self, value):
        """Return the `Quotient` of which the known `value` is the value, or None."""
        _, origin = self._tensors[id(_tensor(value))]
        return None if origin is None else origin()


def _tensor(gradient):
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


class _Place:
    pending: ScalingCall | None = None


class _PlaceOfThread(threading.local):
    pending: ScalingCall | None = None


class Calls:
    """Remembers the scaling calls of one optimizer."""

    def __init__(self):
        self.unscaled_gradients = Returned()
        self._losses = Returned()
        # Maps the graph of each traced function to a dict, which maps replicas to places.
        self._of_functions = weakref.WeakKeyDictionary()
        self._of_thread = _PlaceOfThread()
        # All scaling calls that were made in any place, for rule 3.
        self._seen = set()
        # The decisions of rule 3 in traced functions: True if the function divides.
        self._assumed = set()

    def check_loss(self, loss, call):
        """Raise RuntimeError if `loss` is scaled already, or by the fourth rule."""
        pending = self._place().pending
        if pending in _LOSS_CALLS and pending is not call:
            raise RuntimeError(_PENDING.format(call=call.value, other=pending.value))
        if self._losses.has(loss):
            raise RuntimeError(_SCALED_TWICE.format(loss=loss))

    def note_scaled(self, call, result):
        """Make `call` the pending call. `result` is the scaled loss that it returns."""
        self._losses.add(result)
        self._place().pending = call
        self._see(call)

    def check_gradients(self, gradients):
        """Raise RuntimeError if `get_unscaled_gradients` has returned one of `gradients`."""
        if any(map(self.unscaled_gradients.has, gradients)):
            raise RuntimeError(_UNSCALED_TWICE)

    def note_unscaled(self, results, quotients):
        """Make `get_unscaled_gradients`, which returns `results`, the pending call."""
        if not results:
            self._place().pending = None
            return
        for result, quotient in zip(results, quotients):
            self.unscaled_gradients.add(result, quotient)
        self._place().pending = ScalingCall.GET_UNSCALED_GRADIENTS
        self._see(ScalingCall.GET_UNSCALED_GRADIENTS)

    def begin_step(self, gradients, *, if_none_seen):
        """Return whether a step must divide the gradients that rule 1 does not cover.

        End the pending call. But if rule 1 covers all gradients, a loss that the program has
        scaled since then stays pending. `if_none_seen` is the result if this optimizer has seen
        no scaling call. Raise RuntimeError if it has seen both protocols, by rule 3.
        """
        place = self._place()
        pending = place.pending
        if all(map(self.unscaled_gradients.has, gradients)):
            if pending is ScalingCall.GET_UNSCALED_GRADIENTS:
                place.pending = None
            return False
        place.pending = None
        if pending is not None:
            return pending is ScalingCall.SCALE_LOSS
        answers = {call is ScalingCall.SCALE_LOSS for call in self._seen}
        if len(answers) == 2:
            raise RuntimeError(_SEEN_BOTH)
        divides = answers.pop() if answers else if_none_seen
        if not tf.executing_eagerly():
            self._assumed.add(divides)
        return divides

    def warning_if_forgotten(self):
        """Return a warning about a call that a legacy program forgot, or None.

        As in TensorFlow 2.2-2.15, the calls of all places count, because a program may scale
        and unscale in different functions.
        """
        if ScalingCall.SCALE_LOSS in self._seen:
            return None
        scaled = ScalingCall.GET_SCALED_LOSS in self._seen
        unscaled = ScalingCall.GET_UNSCALED_GRADIENTS in self._seen
        if scaled and unscaled:
            return None
        if scaled:
            what = "get_scaled_loss() was called but get_unscaled_gradients() was not"
        elif unscaled:
            what = "get_unscaled_gradients() was called but get_scaled_loss() was not"
        else:
            what = "get_scaled_loss() and get_unscaled_gradients() were not called"
        return _FORGOTTEN.format(what)

    def _place(self):
        if tf.executing_eagerly():
            return self._of_thread  # each eager replica runs in a thread of its own
        function = tf_private.outermost(tf.compat.v1.get_default_graph())
        has_one_replica = tf.distribute.get_strategy().num_replicas_in_sync == 1
        replica = None if has_one_replica else graphs.replica_id()
        places = self._of_functions.setdefault(function, {})
        return places.setdefault(replica, _Place())

    def _see(self, call):
        if call in self._seen:
            return
        self._seen.add(call)
        contradicting = call is not ScalingCall.SCALE_LOSS
        if contradicting in self._assumed:
            self._assumed.discard(contradicting)
            taken = (
                "scaled gradients and divides them"
                if contradicting
                else "unscaled gradients"
            )
            log.logger().warning(_ASSUMED.format(call=call.value, gradients=taken))
