"""Which tensors an optimizer has returned, known by identity.

Nothing is marked on a tensor: a clipped, summed or copied one is another tensor, and is
not known here.
"""

import functools
import weakref

import tensorflow as tf


def held(value):
    """Return a callable that gives `value` back, and keeps no graph alive.

    A tensor of a graph lives as long as its graph.
    """
    if isinstance(value, tf.Tensor) and not hasattr(value, "numpy"):
        return weakref.ref(value)
    return lambda: value


def _tensor(gradient):
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _forget(entries, key, reference):
    # Another tensor may have the same id by now.
    if key in entries and entries[key][0] is reference:
        del entries[key]


class Returned:
    """Tensors that were returned, and of what and by which scale each was made.

    Entries go with their tensors.
    """

    def __init__(self):
        self._entries = {}  # id -> (weak reference, (source, scale)), both callables

    def note(self, results, sources, scale):
        """Note that each result was made of the source in its place.

        Args:
          results: list of tensors, slices, callables or None.
          sources: list of the like; None where the result is not the source divided
            by the scale and nothing else.
          scale: float32 scalar tensor.
        """
        scale, entries = held(scale), self._entries
        if tf.executing_eagerly():
            sources = [None] * len(results)  # which nobody asks for
        for result, source in zip(results, sources):
            if result is None:
                continue
            result = _tensor(result)
            forget = functools.partial(_forget, entries, id(result))
            entries[id(result)] = (
                weakref.ref(result, forget),
                (
                    None if source is None else held(_tensor(source)),
                    scale,
                ),
            )

    def sources(self, tensors):
        """Return (source, scale) of each tensor, None for those not returned here."""
        found = []
        for tensor in map(_tensor, tensors):
            reference, source = self._entries.get(id(tensor), (None, None))
            is_it = reference is not None and reference() is tensor
            found.append(source if is_it else None)
        return found

    def any_of(self, tensors):
        """Return whether one of `tensors`, without None, was returned here."""
        return any(self.sources([t for t in tensors if t is not None]))

    def all_of(self, tensors):
        """Return whether each of `tensors` was returned here."""
        return all(self.sources(tensors))
