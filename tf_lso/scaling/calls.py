"""Decide whether the gradients of a step are still scaled, and by what to divide them.

Two protocols work on one optimizer. A legacy program calls `get_scaled_loss`, then
`get_unscaled_gradients`, and applies the result. A Keras 3 program calls only `scale_loss`,
and `apply` divides. So an apply of gradients must know which calls came before it.

A *place* is one traced function, with everything that is traced inside it, or one thread
of eager code. Each place has a state of two fields:

| Call | kind | pending |
|---|---|---|
| `get_scaled_loss` | `LEGACY` | `SCALED` |
| `scale_loss` | `KERAS3` | `SCALED` |
| `get_unscaled_gradients` | `LEGACY` | `UNSCALED` |
| an apply of gradients that this place may have made | stays the same | None |

An apply divides if the kind is `KERAS3`. Gradients *wait* while they are pending in the
place that made them, because another place may apply them. `Calls.divisor` states the rules
for gradients that wait, and says which steps are refused. In a traced function the divisor
is the scale that the last scaling call of this function read. Everywhere else the divisor
is the current scale, as in TensorFlow 2.0-2.15 and Keras 3.

These states are Python objects. A function sets its state while it is traced, and calling
it later changes nothing.
"""

import functools
import threading
import weakref

import tensorflow as tf

from tf_lso.frameworks import log, tf_private

LEGACY, KERAS3 = "get_scaled_loss", "scale_loss"
SCALED, UNSCALED = "scaled", "unscaled"

_OTHER = {LEGACY: KERAS3, KERAS3: LEGACY}

_UNKNOWN = (
    "apply_gradients() cannot know whether these gradients are still scaled: both "
    "get_scaled_loss() and scale_loss() have scaled losses, in different functions or "
    "threads. Scale, unscale and apply in one function, or apply what "
    "get_unscaled_gradients() returns as it is. See `tf-lso help waiting-gradients`"
)
_PENDING = (
    "{call}() was called while a loss that {other}() has scaled is neither unscaled nor "
    "applied. One step takes one of the two: get_scaled_loss() and "
    "get_unscaled_gradients(), or scale_loss() alone, as Keras 3's `fit` does; scaling "
    "the loss twice would give wrong gradients. To finish the other step, apply its "
    "gradients. To drop it, call get_unscaled_gradients([]). See "
    "`tf-lso help two-protocols`"
)
_SCALED_TWICE = (
    "The loss {loss!r} is scaled already: get_scaled_loss() or scale_loss() has returned "
    "it. Pass the loss of the model, and scale it once."
)
_UNSCALED_TWICE = (
    "get_unscaled_gradients() got gradients that it has returned, which are unscaled "
    "already. Call it once for each gradient."
)
# The kind of a call -> the warning that is logged if a function was traced before on the
# assumption that its gradients are of the other kind.
_ASSUMED_THE_OTHER_KIND = {
    kind: f"{kind}() is called, but a tf.function that only applies gradients was traced "
    f"before. It takes {gradients}. Scale, unscale and apply in one function, or call "
    "get_unscaled_gradients() in that function. See `tf-lso help waiting-gradients`"
    for kind, gradients in (
        (LEGACY, "scaled gradients and divides them"),
        (KERAS3, "unscaled gradients"),
    )
}
# (Was a loss scaled?, were gradients unscaled?) -> the call that the program forgot.
_FORGOTTEN = {
    (False, False): "get_scaled_loss() and get_unscaled_gradients() were not called",
    (False, True): "get_unscaled_gradients() was called but get_scaled_loss() was not",
    (True, False): "get_scaled_loss() was called but get_unscaled_gradients() was not",
}


class Returned:
    """The tensors that an optimizer has returned and that still exist.

    A tensor is recognized by identity. A clipped or copied tensor is not recognized.
    """

    def __init__(self):
        self._references = {}  # id -> weak reference

    def add(self, results):
        """Add tensors, slices and callables. None is ignored."""
        for result in results:
            if result is not None:
                tensor = _tensor(result)
                # Python calls `forget` before another object can get this id.
                forget = functools.partial(self._references.pop, id(tensor))
                self._references[id(tensor)] = weakref.ref(tensor, forget)

    def has(self, value):
        """Return whether `value` was added. The answer for None is False."""
        tensor = _tensor(value)
        reference = self._references.get(id(tensor))
        return reference is not None and reference() is tensor


def _tensor(gradient):
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


class _Place:
    """The state of one place. The table in the module's docstring says which call sets what."""

    def __init__(self):
        self.kind = None  # `LEGACY` or `KERAS3`, or None before the first call
        self.pending = None  # `SCALED` or `UNSCALED`, or None after an apply


class Calls:
    """The scaling calls of one optimizer.

    Scales are float32 scalar tensors. The argument `now` of some methods is a function that
    returns the current scale.
    """

    def __init__(self):
        self.unscaled_gradients = Returned()  # by `get_unscaled_gradients`
        self._losses = Returned()  # by `get_scaled_loss` and `scale_loss`
        self._functions = weakref.WeakKeyDictionary()  # graph -> _Place
        self._scales = weakref.WeakKeyDictionary()  # graph -> reference to a scale
        self._thread = threading.local()
        self._threads = weakref.WeakSet()  # the places of all living threads
        self._lock = threading.Lock()
        self._kinds = set()  # the kinds of all calls so far, in any place
        self._has_scaled = self._has_unscaled = False
        # The kinds that were assumed when functions were traced that only apply gradients.
        self._assumed = set()

    # --- Called by the scaling methods.

    def check_loss(self, loss, kind):
        """Raise RuntimeError if the method named `kind` must not scale this loss now."""
        place = self._place()
        if place.pending == SCALED and place.kind != kind:
            raise RuntimeError(_PENDING.format(call=kind, other=place.kind))
        if self._losses.has(loss):
            raise RuntimeError(_SCALED_TWICE.format(loss=loss))

    def scaled(self, kind, scale, result):
        """Record that a method has scaled a loss by `scale` and returns `result`."""
        place = self._place()
        place.kind, place.pending = kind, SCALED
        self.scale_was_read(scale)
        self._has_scaled = True
        self._losses.add([result])
        self._see(kind)

    def scale_was_read(self, scale):
        """Record the scale that multiplies a loss in the running code."""
        # If the loss is a callable, this line runs only when the callable is called.
        if not tf.executing_eagerly():
            self._scales[_function()] = weakref.ref(scale)  # keeps no graph alive

    def check_gradients(self, gradients):
        """Raise RuntimeError if `get_unscaled_gradients` has returned one of `gradients`."""
        if any(map(self.unscaled_gradients.has, gradients)):
            raise RuntimeError(_UNSCALED_TWICE)

    def unscaled(self, gradients):
        """Record the list that `get_unscaled_gradients` returns."""
        place = self._place()
        place.kind, place.pending = LEGACY, UNSCALED
        self._has_unscaled = True
        self.unscaled_gradients.add(gradients)
        self._see(LEGACY)

    def scale(self, now):
        """Return the scale that divides in the running code."""
        if tf.executing_eagerly():
            return now()
        scale = self._scales.get(_function(), lambda: None)()
        # A tensor that was made in a branch or a loop cannot be used outside of this branch
        # or loop.
        is_usable = scale is not None and tf_private.is_within(scale.graph)
        return scale if is_usable else now()

    # --- Called by an apply.

    def divisor(self, gradients, now, *, unknown_is_scaled=False):
        """Return the scale by which to divide gradients that are applied here, or None.

        1. Gradients that `get_unscaled_gradients` returned are unscaled. The caller must
           not divide them, whatever this method returns for the other gradients.
        2. If a traced function made a scaling call, the kind of that call decides. In eager
           code the kind of its own scaling call decides while the gradients of this call are
           pending. But if a function has returned scaled gradients of the other kind to eager
           code, the step is refused.
        3. In eager code without a scaling call, the kind that waits elsewhere decides.
        4. Otherwise the only kind that this optimizer has seen decides. If it has seen
           none, the gradients are taken as scaled if `unknown_is_scaled` is True, and as
           unscaled if it is False. `LossScaleOptimizer.apply` passes True, as `apply` of
           Keras 3 takes all gradients as scaled.

        In 3 and 4 the step is refused if both kinds are possible.

        Raises:
          RuntimeError: if both kinds are possible.
        """
        place = self._place()
        if all(map(self.unscaled_gradients.has, gradients)):
            if place.pending == UNSCALED:  # a loss that is scaled has its own apply
                place.pending = None
            return None
        kinds = self._possible_kinds(place)
        if len(kinds) == 2:
            raise RuntimeError(_UNKNOWN)
        kind = next(iter(kinds), KERAS3 if unknown_is_scaled else LEGACY)
        if place.kind is None and not tf.executing_eagerly():
            self._assumed.add(kind)
        place.pending = None
        if kind == LEGACY:
            return None
        # The caller divides, so no call was forgotten. If there was no call at all, the
        # program has scaled its loss itself.
        self._has_scaled |= not self._kinds
        self._has_unscaled = True
        return self.scale(now)

    def _possible_kinds(self, place):
        """Return the set of kinds that gradients applied here may have."""
        if not tf.executing_eagerly():
            if place.kind is not None:
                return {place.kind}
            # Later calls of the function may pass gradients of any kind. So the gradients
            # that wait now, while it is traced, do not decide.
            return set(self._kinds)
        if place.pending is not None:
            return {place.kind} | self._waiting_in_functions({SCALED})
        if place.kind is None:
            waiting = self._waiting_in_threads()
            waiting |= self._waiting_in_functions({SCALED, UNSCALED})
            if waiting:
                return waiting
        return set(self._kinds)

    def _waiting_in_functions(self, stages):
        """Return the set of kinds of the pending gradients that functions have returned.

        Only gradients whose field `pending` is one of `stages` count.
        """
        with self._lock:
            functions = list(self._functions.items())
        # A function that is being traced, or whose trace failed, has returned nothing.
        return {
            place.kind
            for graph, place in functions
            if place.pending in stages and tf_private.has_returned(graph)
        }

    def _waiting_in_threads(self):
        """Return the kinds of scaling calls whose gradients no thread has applied yet."""
        # Unscaled gradients are recognized by identity, so it does not matter which thread
        # made them.
        with self._lock:
            return {place.kind for place in self._threads if place.pending == SCALED}

    # --- Warnings.

    def forgotten(self):
        """Return a warning if scaling or unscaling was forgotten, else None."""
        # As in TensorFlow 2.2-2.15 all calls count, because they may be in different
        # functions.
        what = _FORGOTTEN.get((self._has_scaled, self._has_unscaled))
        return what and (
            f"{what} before apply_gradients(), so the gradients are not what they should "
            "be and the model will likely be worse. Call each once: "
            "scaled_loss = opt.get_scaled_loss(loss) inside the tape, and "
            "grads = opt.get_unscaled_gradients(scaled_grads) before the apply. "
            "See `tf-lso help forgotten`"
        )

    def _see(self, kind):
        if kind in self._kinds:
            return
        self._kinds.add(kind)
        if _OTHER[kind] in self._assumed:
            log.logger().warning(_ASSUMED_THE_OTHER_KIND[kind])

    # --- Places.

    def _place(self):
        """Return the place of the running code, which is made if it does not exist."""
        if not tf.executing_eagerly():
            with self._lock:
                return self._functions.setdefault(_function(), _Place())
        if not hasattr(self._thread, "place"):
            self._thread.place = _Place()
            with self._lock:
                self._threads.add(self._thread.place)
        return self._thread.place


def _function():
    """Return the graph of the outermost function that is being traced."""
    return tf_private.outermost(tf.compat.v1.get_default_graph())
