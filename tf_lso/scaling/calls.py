"""Which scale divides the gradients of a step: three rules, and the calls they look at.

Legacy programs call `get_scaled_loss` and `get_unscaled_gradients`. Keras 3 programs call
`scale_loss` alone, and the apply divides. One object serves both. The rules:

1. What `get_unscaled_gradients` has returned is unscaled. It is known by identity. So
   is what eager code has applied before: it is scaled if it was scaled then.
2. In one place, the last call decides: after `scale_loss` its scale divides, after
   `get_scaled_loss` or `get_unscaled_gradients` nothing does. A place is one traced
   function with all that is traced in it, or one thread of eager code.
3. Elsewhere each generation's own answer: where `scale_loss` was never called, nothing
   divides; where only `scale_loss` was called, the scale as it is now. Where both kinds
   of gradients may be in flight, nothing tells them apart, and the step is refused.

Python writes the record, so a traced function writes it once, while it is traced.
"""

import functools
import threading
import weakref

import tensorflow as tf

from tf_lso import graphs, log, tf_private

LEGACY = "get_scaled_loss"
KERAS3 = "scale_loss"

_REFUSED = (
    "apply_gradients() cannot know whether these gradients are still scaled: both "
    "get_scaled_loss() and scale_loss() have scaled losses, in different functions or "
    "threads or more than one at a time. Scale, unscale and apply in one function, or "
    "call get_unscaled_gradients() where you apply. "
    "See `tf-lso help waiting-gradients`"
)

_ASSUMED = {
    LEGACY: "unscaled gradients, since scale_loss() had not been called",
    KERAS3: "scaled gradients and divides them, since only scale_loss() had been called",
}

_FORGOTTEN = {
    (False, False): "get_scaled_loss() and get_unscaled_gradients() were not called",
    (False, True): "get_unscaled_gradients() was called but get_scaled_loss() was not",
    (True, False): "get_scaled_loss() was called but get_unscaled_gradients() was not",
}


def _is_of_graph(value):
    return isinstance(value, tf.Tensor) and not hasattr(value, "numpy")


def _reader(value):
    """Return a callable that returns `value` and keeps no graph alive."""
    return weakref.ref(value) if _is_of_graph(value) else lambda: value


def _other(kind):
    return LEGACY if kind == KERAS3 else KERAS3


def _tensor(gradient):
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


class Returned:
    """The tensors that an optimizer has returned, while they live, with their scales.

    Tensors carry no mark: a clipped, summed or copied one is another and not known here.
    """

    def __init__(self):
        self._entries = {}  # id -> (weak reference, callable that returns the scale)

    def note(self, results, scale):
        """Note a list of tensors, slices, callables or None with a scalar tensor."""
        reader = _reader(scale)
        for tensor in [_tensor(r) for r in results if r is not None]:
            # It runs before another tensor can have this id.
            forget = functools.partial(self._entries.pop, id(tensor))
            self._entries[id(tensor)] = weakref.ref(tensor, forget), reader

    def scale_of(self, tensor):
        """Return a callable that returns the scale of a tensor, None if not known."""
        tensor = _tensor(tensor)
        reference, scale = self._entries.get(id(tensor), (lambda: None, None))
        return scale if reference() is tensor else None

    def has(self, tensor):
        """Return whether a tensor was returned here; None was not."""
        return self.scale_of(tensor) is not None


class _Place:
    """What was called in one place, by one replica."""

    def __init__(self):
        self.kind = None  # what decides by rule 2: `LEGACY`, `KERAS3`, None at first
        self.scaled_by = None  # the method that scaled losses since the last apply
        self.scale = _reader(None)  # returns the scale of the last scaled loss
        self.is_new = False  # whether that loss was scaled after the last apply
        self.awaits = False  # whether its gradients were neither unscaled nor applied
        self._is_second = False  # whether another loss awaited when it was scaled
        self.gave = set()  # the kinds of gradients made since the last apply
        self.left = set()  # the kinds of which an apply may have left gradients behind

    def usable_scale(self):
        """Return the scale of the last scaled loss; None where it cannot be used."""
        scale = self.scale()
        is_usable = not _is_of_graph(scale) or tf_private.is_within(scale.graph)
        return scale if is_usable else None

    def scaled(self, method, scale):
        self.left |= self.gave  # a second loss before the apply
        self._is_second = self.awaits
        self.kind = self.scaled_by = method
        self.scale, self.is_new, self.awaits = _reader(scale), True, True
        self.gave.add(method)

    def waits_for(self, method):
        """Whether `method` has scaled the last loss, and its gradients are scaled yet."""
        return self.awaits and self.scaled_by == method

    def unscaled(self, is_own):
        if not self.awaits:
            self.left |= self.gave
        self.kind, self.awaits = LEGACY, False
        if is_own:  # else the scaled loss may wait for its own apply
            self.gave.discard(KERAS3)
        self.gave.add(LEGACY)

    def applied(self):
        # Of two losses that were scaled one after the other, the second may still wait.
        self.is_new, self._is_second = self._is_second, False
        self.scaled_by, self.awaits = None, False
        self.gave.clear()


class Calls:
    """The scaling calls of one optimizer.

    A scale is a float32 scalar tensor; `now` is a callable that returns it as it is now.
    """

    def __init__(self):
        self.unscaled_gradients = Returned()  # by `get_unscaled_gradients`
        self._applied = Returned()  # what eager code has applied, with its kind
        self._losses = Returned()  # by `get_scaled_loss` and `scale_loss`
        self._lock = threading.Lock()
        self._graphs = weakref.WeakKeyDictionary()  # function -> {replica id: _Place}
        self._thread = threading.local()
        self._places = weakref.WeakSet()
        self._gone = set()  # the kinds that places which are gone have left behind
        self._ever = set()  # the kinds of calls so far
        self._ever_scaled = self._ever_unscaled = False
        self._assumed = set()  # the kinds that traced functions took by rule 3

    def _here(self):
        """Return {replica id: _Place} of the traced function or of this thread."""
        if tf.executing_eagerly():
            return self._thread.__dict__.setdefault("places", {})
        graph = tf_private.outermost(tf.compat.v1.get_default_graph())
        with self._lock:
            return self._graphs.setdefault(graph, {})

    def _place(self):
        """Return the place of the running code, a new one if nothing was called here."""
        here, number = self._here(), graphs.replica_id()
        if number not in here and here and (number is None or None in here):
            return here.get(None) or next(iter(here.values()))
        if number not in here:
            place = here[number] = _Place()
            with self._lock:
                self._places.add(place)
            kinds = place.gave, place.left
            weakref.finalize(place, self._gone.update, *kinds).atexit = False
        return here[number]

    def _elsewhere(self, place):
        """Return the kinds of gradients that other places may have in flight, a set.

        A function whose trace has failed gave none. A thread that has scaled a loss
        applies its own, while the threads beside it live.
        """
        here = self._here().values()
        with self._lock:
            traced = [(g, list(places.values())) for g, places in self._graphs.items()]
            others = set(self._places)
        for graph, places in traced:
            if not tf_private.has_returned(graph):
                others.difference_update(places)
        if place.scaled_by:
            others.intersection_update(p for _, places in traced for p in places)
        return self._gone.union(*(p.gave | p.left for p in others.difference(here)))

    def check_loss(self, loss, method):
        """Raise RuntimeError if `loss`, or another one of this step, is scaled already."""
        place = self._place()
        if place.waits_for(_other(method)):
            place.applied()
            raise RuntimeError(
                f"{method}() was called in a step in which {_other(method)}() has scaled "
                "the loss already; scaling it twice gives wrong gradients. Call either "
                "get_scaled_loss() and get_unscaled_gradients(), or scale_loss() alone, as "
                "Keras 3's `fit` does. See `tf-lso help two-protocols`"
            )
        if self._losses.has(loss):
            raise RuntimeError(
                f"The loss {loss!r} is scaled already: get_scaled_loss() or scale_loss() "
                "has returned it. Pass the loss of the model, and scale it once."
            )

    def scaled(self, method, scale, result):
        """Note that `method` has scaled a loss by `scale`, and returns `result`."""
        self._place().scaled(method, scale)
        self._note(method)
        self._ever_scaled = True
        self._losses.note([result], scale)

    def rescaled(self, scale):
        """Note that the last loss, a callable, was multiplied by `scale` when called."""
        self._place().scale = _reader(scale)

    def _note(self, kind):
        if kind not in self._ever and _other(kind) in self._assumed:
            log.logger().warning(
                "%s() is called, but a tf.function that only applies gradients was traced "
                "before: it takes %s. Scale, unscale and apply in one function, or call "
                "get_unscaled_gradients() where you apply. See "
                "`tf-lso help waiting-gradients`",
                kind,
                _ASSUMED[_other(kind)],
            )
        self._ever.add(kind)

    def scale_of_gradients(self, gradients, now):
        """Return the scale of the last loss that was scaled here, else the present one."""
        if any(map(self.unscaled_gradients.has, gradients)):
            raise RuntimeError(
                "get_unscaled_gradients() got gradients that it has returned, which are "
                "unscaled already. Call it once for each gradient."
            )
        place = self._place()
        scale = place.usable_scale() if place.is_new else None
        return now() if scale is None or self._may_be_of_another() else scale

    def _may_be_of_another(self):
        """Whether gradients that are unscaled may be of a loss of another place."""
        if not tf.executing_eagerly():
            return False  # no gradients of eager code come in
        here = self._here().values()
        with self._lock:
            awaits = any(p.awaits for p in self._places if p not in here)
        return awaits or bool(self._gone)

    def unscaled(self, gradients, scale):
        """Note the list that `get_unscaled_gradients` returns, divided by `scale`."""
        self._place().unscaled(is_own=not self._may_be_of_another())
        self._note(LEGACY)
        self._ever_unscaled = True
        self.unscaled_gradients.note(gradients, scale)

    def apply(self, gradients, now, *, unknown_is_scaled=False):
        """Return the scale that divides gradients that are applied, by the three rules.

        None means that they are unscaled; those that are known by identity must not be
        divided in either case. RuntimeError if nothing tells. `unknown_is_scaled` says
        what they are if no scaling call was made at all, as Keras 3's `apply` takes them.
        """
        place = self._place()
        if all(map(self.unscaled_gradients.has, gradients)):  # rule 1
            place.gave.discard(LEGACY)
            if not place.waits_for(KERAS3):  # else it may wait for its own apply
                place.left |= place.gave
                place.applied()
            return None
        applied = list(map(self._applied.scale_of, gradients))
        known = None if None in applied else {kind() for kind in applied}
        divisor = self._divisor(place, known, now, unknown_is_scaled)
        if divisor is not None:
            self._ever_unscaled = True
            self._ever_scaled |= not self._ever
        if known is not None:
            return divisor  # the last loss may still wait for its own apply
        if place.kind == LEGACY:
            place.left |= place.gave - {LEGACY}
        place.applied()
        if tf.executing_eagerly() and self._ever:
            # A variable may hold other numbers by the next step.
            tensors = [g for g in map(_tensor, gradients) if isinstance(g, tf.Tensor)]
            self._applied.note(tensors, LEGACY if divisor is None else KERAS3)
        return divisor

    def _divisor(self, place, known, now, unknown_is_scaled):
        traced, own, elsewhere = not tf.executing_eagerly(), place.kind, set()
        if known is not None:
            kinds = known  # rule 1
        elif KERAS3 not in self._ever:
            is_unknown = unknown_is_scaled and not self._ever
            kinds = {KERAS3 if is_unknown else LEGACY}
        else:
            elsewhere = self._elsewhere(place)
            # Rule 3. What a function gets has lost its identity.
            kinds = self._ever if traced else elsewhere or self._ever
            if own is not None:  # rule 2
                # No gradients of eager code come into a function that scales by itself.
                kinds = {own} if traced else {own} | place.left | elsewhere
        if len(kinds) == 2:
            raise RuntimeError(_REFUSED)
        if own is None and traced:
            self._assumed |= kinds
        if kinds == {LEGACY}:
            return None
        scale = place.usable_scale()
        # Gradients of other places may be among them: then as Keras 3's own class.
        return now() if scale is None or (elsewhere and not traced) else scale

    def forgotten(self):
        """Return a warning if scaling or unscaling was forgotten, else None."""
        # All calls count, as in TensorFlow 2.2-2.15: they may be in different functions.
        what = _FORGOTTEN.get((self._ever_scaled, self._ever_unscaled))
        return what and (
            f"{what} before apply_gradients(), so the gradients are not what they should "
            "be and the model will likely be worse. Call each once: "
            "scaled_loss = opt.get_scaled_loss(loss) inside the tape, and "
            "grads = opt.get_unscaled_gradients(scaled_grads) before the apply. "
            "See `tf-lso help forgotten`"
        )
