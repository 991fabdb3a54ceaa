"""Remember which tensors an optimizer has returned, by identity.

Tensors carry no mark. A clipped, summed or copied tensor is a new tensor, which is not
known here.
"""

import functools
import weakref

import tensorflow as tf


def held(value):
    """Return a callable that returns `value` and keeps no graph alive.

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
    """The returned tensors, each with its source and its scale.

    An entry is dropped together with its tensor.
    """

    def __init__(self):
        self._entries = {}  # id -> (weak reference, (source, scale)), both callables

    def note(self, results, sources, scale):
        """Note what was returned, and what each result was made from.

        Args:
          results: list of tensors, slices, callables or None.
          sources: list of the tensor or slices that each result is, divided by the
            scale; None if the result is anything else.
          scale: float32 scalar tensor.
        """
        scale, entries = held(scale), self._entries
        if tf.executing_eagerly():
            sources = [None] * len(results)  # eager steps never ask for them
        for result, source in zip(results, sources):
            if result is not None:
                result = _tensor(result)
                forget = functools.partial(_forget, entries, id(result))
                entry = (held(_tensor(source)), scale)
                entries[id(result)] = (weakref.ref(result, forget), entry)

    def sources(self, tensors):
        """Return (source, scale) of each tensor, None for those not returned here."""
        found = []
        for tensor in map(_tensor, tensors):
            reference, source = self._entries.get(id(tensor), (None, None))
            is_it = reference is not None and reference() is tensor
            found.append(source if is_it else None)
        return found

    def before_unscaling(self, tensors):
        """Return what the tensors were before, a list, and the scale they had.

        Returns None unless each was divided here, by one scale, and not changed since.
        """
        sources = self.sources(tensors)
        if None in sources:
            return None
        scaled, scales = zip(*[(tensor(), scale()) for tensor, scale in sources])
        one_scale = all(scale is scales[0] for scale in scales)
        known = all(tensor is not None for tensor in scaled)
        return (list(scaled), scales[0]) if one_scale and known else None

    def any_of(self, tensors):
        """Return whether any of `tensors` was returned here; None is ignored."""
        return any(self.sources([t for t in tensors if t is not None]))

    def all_of(self, tensors):
        """Return whether each of `tensors` was returned here."""
        return all(self.sources(tensors))
