"""Decide whether gradients are still scaled, and by which scale to divide them.

One optimizer supports two protocols. A legacy program calls `get_scaled_loss` and
`get_unscaled_gradients`, and applies the unscaled gradients. A Keras 3 program calls only
`scale_loss`, and `apply` divides the gradients. A call of `get_scaled_loss`,
`get_unscaled_gradients` or `scale_loss` is a *scaling call*. The code that applies gradients
must know which scaling calls the program has made before.

A *place* is one thread of eager code, or one traced function including everything that is
traced inside the function. The state of a place has two fields. `kind`, which is `LEGACY` or
`KERAS3`, is the protocol of the last scaling call in this place. `pending` says whether the
gradients of this call are scaled or unscaled, and is None after the program has applied these
gradients. These calls set the fields:

| Call | kind | pending |
|---|---|---|
| `get_scaled_loss` | `LEGACY` | `SCALED` |
| `scale_loss` | `KERAS3` | `SCALED` |
| `get_unscaled_gradients` | `LEGACY` | `UNSCALED` |
| a method that applies gradients | stays the same | None |

The last row has one exception. A program may apply unscaled gradients of an earlier loss after
it has scaled the next loss. Then `pending` stays `SCALED`, because the gradients of the next
loss have not been applied yet.

The optimizer divides gradients before the update if their kind is `KERAS3`. A program may also
apply gradients in another place than the place in which they are pending. For example, a traced
function computes the gradients, and eager code applies them. Pending gradients that another
place may apply are called *waiting*. The docstring of `Calls.divisor` states the rules for
waiting gradients, and says which steps are refused.

In a traced function, the optimizer divides by the scale that the last scaling call in this
function read. Everywhere else the optimizer divides by the current scale, as in TensorFlow
2.0-2.15 and Keras 3.

The states are Python objects. A function sets the state of its place only while TensorFlow
traces the function. Later calls of the function do not change the state.
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
# A traced function that only applies gradients does not show whether they are scaled. So the
# optimizer assumes a protocol, `LEGACY` or `KERAS3`. If the program uses the other protocol
# later, the assumption may have been wrong, and the optimizer logs a warning. This dict maps
# the protocol that is used later to the warning.
_ASSUMED_THE_OTHER_KIND = {
    kind: f"{kind}() is called, but a tf.function that only applies gradients was traced "
    f"before. It takes {gradients}. Scale, unscale and apply in one function, or call "
    "get_unscaled_gradients() in that function. See `tf-lso help waiting-gradients`"
    for kind, gradients in (
        (LEGACY, "scaled gradients and divides them"),
        (KERAS3, "unscaled gradients"),
    )
}
# Each key is a pair of bools: whether a loss was scaled, and whether gradients were unscaled.
# The value says which call the program forgot.
_FORGOTTEN = {
    (False, False): "get_scaled_loss() and get_unscaled_gradients() were not called",
    (False, True): "get_unscaled_gradients() was called but get_scaled_loss() was not",
    (True, False): "get_scaled_loss() was called but get_unscaled_gradients() was not",
}


class Returned:
    """Remembers the tensors that an optimizer has returned, as long as the tensors exist.

    Tensors are compared by identity, so a clipped or copied tensor is not recognized.
    """

    def __init__(self):
        # Maps the id of each tensor to a weak reference to the tensor.
        self._references = {}

    def add(self, results):
        """Remember the tensors, slices and callables in `results`. Ignore None."""
        for result in results:
            if result is not None:
                tensor = _tensor(result)
                # When a tensor is deleted, Python calls `forget` before another object can get
                # the id of the tensor. So an id never stands for the wrong tensor.
                forget = functools.partial(self._references.pop, id(tensor))
                self._references[id(tensor)] = weakref.ref(tensor, forget)

    def has(self, value):
        """Return whether `value` was added. For None return False."""
        tensor = _tensor(value)
        reference = self._references.get(id(tensor))
        return reference is not None and reference() is tensor


def _tensor(gradient):
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


class _Place:
    """The state of one place, which is a thread of eager code or a traced function.

    The docstring of the module explains the fields `kind` and `pending`.
    """

    def __init__(self):
        # `kind` is `LEGACY` or `KERAS3`. It is None before the first scaling call.
        self.kind = None
        # `pending` is `SCALED` or `UNSCALED`. It is None if no gradients are pending.
        self.pending = None
        # For a traced function, `is_applied` says whether eager code has applied gradients of
        # the function's kind since the trace.
        self.is_applied = False


class Calls:
    """Records the scaling calls of one optimizer.

    A scaling call is a call of `get_scaled_loss`, `scale_loss` or `get_unscaled_gradients`.
    Scales are float32 scalar tensors. Some methods of this class have an argument `now`, which
    is a function that returns the current scale.
    """

    def __init__(self):
        # The gradients that `get_unscaled_gradients` returned.
        self.unscaled_gradients = Returned()
        # The losses that `get_scaled_loss` and `scale_loss` returned.
        self._losses = Returned()
        # Maps the graph of each traced function to a `_Place`, the state of the function.
        self._functions = weakref.WeakKeyDictionary()
        # The `_Place`, that is the state, of each deleted function whose gradients the program
        # may still apply.
        self._deleted = []
        # Maps the graph of each traced function to a weak reference to a scale tensor. This is
        # the scale that the last scaling call in the function read.
        self._scales = weakref.WeakKeyDictionary()
        self._thread = threading.local()
        # This set contains the `_Place` of each running thread of eager code.
        self._threads = weakref.WeakSet()
        self._lock = threading.Lock()
        # This set contains the kinds of all scaling calls so far, in all threads and functions.
        self._kinds = set()
        self._has_scaled = self._has_unscaled = False
        # A traced function that only applies gradients does not show whether they are scaled.
        # So the optimizer assumes a kind, `LEGACY` or `KERAS3`. This set contains the assumed
        # kinds.
        self._assumed = set()

    # --- Called by the scaling methods of the optimizer.

    def check_loss(self, loss, kind):
        """Raise RuntimeError if a program must not scale `loss` now.

        `kind` is the name of the method that scales the loss: "get_scaled_loss" or
        "scale_loss". A loss must not be scaled twice. In addition, one of these methods must
        not be called while the gradients of a loss that the other method has scaled are neither
        unscaled nor applied.
        """
        place = self._place()
        if place.pending == SCALED and place.kind != kind:
            raise RuntimeError(_PENDING.format(call=kind, other=place.kind))
        if self._losses.has(loss):
            raise RuntimeError(_SCALED_TWICE.format(loss=loss))

    def scaled(self, kind, scale, result):
        """Record that a method of the optimizer multiplies a loss by `scale`.

        `kind` is the name of the method: "get_scaled_loss" or "scale_loss". `result` is the
        value that the method returns to the program.
        """
        place = self._place()
        place.kind, place.pending = kind, SCALED
        self.scale_was_read(scale)
        self._has_scaled = True
        self._losses.add([result])
        self._see(kind)

    def scale_was_read(self, scale):
        """Record the scale by which the function that is being traced multiplies a loss.

        `get_unscaled_gradients` or `apply` in the same function divides by this scale. If the
        loss is a callable, the scale is read when the program calls the scaled loss, so this
        method is called at that time. In eager code the method does nothing.
        """
        if not tf.executing_eagerly():
            # A strong reference to the scale would keep the graph of the scale alive.
            self._scales[_function()] = weakref.ref(scale)

    def check_gradients(self, gradients):
        """Raise RuntimeError if `get_unscaled_gradients` has returned one of `gradients`."""
        if any(map(self.unscaled_gradients.has, gradients)):
            raise RuntimeError(_UNSCALED_TWICE)

    def unscaled(self, gradients):
        """Record that `get_unscaled_gradients` returns the list `gradients`."""
        place = self._place()
        place.kind, place.pending = LEGACY, UNSCALED
        self._has_unscaled = True
        self.unscaled_gradients.add(gradients)
        self._see(LEGACY)

    def scale(self, now):
        """Return the scale by which the running code must divide scaled gradients.

        In eager code this is the current scale. In a traced function it is the scale that the
        last scaling call in this function read.
        """
        if tf.executing_eagerly():
            return now()
        scale = self._scales.get(_function(), lambda: None)()
        # If the scale was read in a branch or a loop, code outside of it cannot use the tensor
        # `scale`. In this case read the current scale.
        is_usable = scale is not None and tf_private.is_within(scale.graph)
        return scale if is_usable else now()

    # --- Called when the optimizer applies gradients.

    def divisor(self, gradients, now, *, unknown_is_scaled):
        """Return the scale by which to divide gradients before they are applied.

        Return None if the gradients are unscaled. The gradients themselves do not show whether
        they are scaled. So the method infers their kind from the scaling calls, which are the
        calls of `get_scaled_loss`, `get_unscaled_gradients` and `scale_loss`. Gradients of the
        kind `KERAS3` are scaled, and gradients of the kind `LEGACY` are unscaled. Gradients are
        pending from their scaling call until the program applies them. The first rule that fits
        decides:

        1. If `get_unscaled_gradients` returned all of the gradients, the gradients are
           unscaled. If this method returned only some of the gradients, the next rules
           decide about the others, and the caller must divide only the others.
        2. A traced function that made a scaling call applies gradients of the kind of its last
           scaling call. The same is true of a thread of eager code whose own gradients are
           pending. But the step of such a thread is refused if scaled gradients of the other
           kind are pending in a traced function.
        3. A thread of eager code that made no scaling call applies gradients of the kind that
           is pending in traced functions, or pending and scaled in other threads.
        4. Otherwise the gradients are of the only kind that this optimizer has seen in any
           scaling call. If there was no such call, the gradients are scaled if
           `unknown_is_scaled` is True, and unscaled otherwise. `LossScaleOptimizer.apply`
           passes True, because `apply` of Keras 3 divides all gradients.

        If rule 3 or 4 finds both kinds, the step is refused.

        Raises:
          RuntimeError: if the step is refused.
        """
        place = self._place()
        if all(map(self.unscaled_gradients.has, gradients)):
            # These are unscaled gradients of an earlier loss. If the gradients of a newer,
            # scaled loss are pending, they stay pending, because the program has not applied
            # them yet.
            if place.pending == UNSCALED:
                place.pending = None
            return None
        kinds = self._possible_kinds(place)
        if len(kinds) == 2:
            raise RuntimeError(_UNKNOWN)
        kind = next(iter(kinds), KERAS3 if unknown_is_scaled else LEGACY)
        if place.kind is None and not tf.executing_eagerly():
            self._assumed.add(kind)
        place.pending = None
        if tf.executing_eagerly():
            self._applied(kind)
        if kind == LEGACY:
            return None
        # The caller divides the gradients. So `forgotten`, which warns of missing calls, must
        # not report that the program forgot to unscale the gradients. If the program made no
        # scaling call at all, its own code has scaled the loss. So `forgotten` must not report
        # the loss either.
        self._has_scaled |= not self._kinds
        self._has_unscaled = True
        return self.scale(now)

    def _possible_kinds(self, place):
        """Return the set of kinds that gradients may have if the running code applies them.

        A kind is `LEGACY` or `KERAS3`. `place` is the state of the running code, that is of its
        thread or traced function. The docstring of `divisor` states the rules.
        """
        if not tf.executing_eagerly():
            if place.kind is not None:
                return {place.kind}
            # The program may call the traced function later, with gradients of another kind
            # than the gradients that are pending now. So consider all kinds that this optimizer
            # has seen.
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
        """Return the kinds of the gradients that are pending in traced functions.

        The result is a set of `LEGACY` and `KERAS3`. A function counts only if it is completely
        traced and the field `pending` of its `_Place` is in the set `stages`. A deleted
        function counts, too, because the program may still hold its gradients.
        """
        with self._lock:
            functions = list(self._functions.items())
        # Leave out traced functions that cannot have returned gradients yet, because TensorFlow
        # is still tracing them or because the trace failed.
        places = [place for graph, place in functions if tf_private.has_returned(graph)]
        # TensorFlow does not say whether the trace of a deleted function failed. It is better
        # to refuse a step than to apply scaled gradients as if they were unscaled.
        places += self._deleted
        return {place.kind for place in places if place.pending in stages}

    def _applied(self, kind):
        """Record that eager code applies gradients of `kind`, which is `LEGACY` or `KERAS3`."""
        with self._lock:
            functions = list(self._functions.values())
        for place in functions:
            if place.kind == kind:
                place.is_applied = True
        self._deleted[:] = [place for place in self._deleted if place.kind != kind]

    def _waiting_in_threads(self):
        """Return the kinds of the scaled gradients that are pending in threads of eager code.

        The result is a set of `LEGACY` and `KERAS3`.
        """
        # Omit threads whose pending gradients are unscaled, because `divisor` recognizes these
        # gradients by identity.
        with self._lock:
            return {place.kind for place in self._threads if place.pending == SCALED}

    # --- Warnings.

    def forgotten(self):
        """Return a warning if the program forgot to scale a loss or to unscale gradients.

        If the program did both, return None.
        """
        # As in TensorFlow 2.2-2.15, the calls in all threads and functions count, because a
        # program may scale losses and unscale gradients in different functions.
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
        """Return the `_Place`, that is the state, of the running thread or traced function.

        If the `_Place` does not exist, make it.
        """
        if not tf.executing_eagerly():
            function = _function()
            with self._lock:
                if function not in self._functions:
                    place = self._functions[function] = _Place()
                    deleted = weakref.finalize(function, _keep, place, self._deleted)
                    deleted.atexit = False
                return self._functions[function]
        if not hasattr(self._thread, "place"):
            self._thread.place = _Place()
            with self._lock:
                self._threads.add(self._thread.place)
        return self._thread.place


def _keep(place, places):
    """Keep the state of a deleted traced function if a program may still apply its gradients.

    `place` is the state. The function adds it to the list `places`.
    """
    if place.pending and not place.is_applied:
        places.append(place)


def _function():
    """Return the graph of the outermost function that is being traced."""
    return tf_private.outermost(tf.compat.v1.get_default_graph())
