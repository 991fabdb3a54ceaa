"""Compute statistics of the values of tensors, such as the largest finite magnitude."""

import dataclasses

import numpy as np
import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Values:
    """Statistics of the values of one or several tensors.

    Attributes:
      size: int, the number of values.
      largest: float, the largest magnitude of the finite values. 0 if there are none.
      smallest: float, the smallest magnitude of the finite values that are not 0. 0 if
        there are none.
      infinite: int, the number of values that are inf or -inf.
      nan: int, the number of values that are NaN.
    """

    size: int
    largest: float
    smallest: float
    infinite: int
    nan: int

    @property
    def nonfinite(self) -> float:
        """The share of values that are inf or NaN, from 0 to 1."""
        return (self.infinite + self.nan) / self.size if self.size else 0.0

    @property
    def kinds(self) -> str:
        """The kinds of non-finite values: "inf", "NaN", "inf and NaN", or "" for none."""
        found = [("inf", self.infinite), ("NaN", self.nan)]
        return " and ".join(name for name, count in found if count)


def summarize(tensors):
    """Return one `Values` for all floating-point tensors and variables in `tensors`."""
    floating = [tensor for tensor in tensors if tensor.dtype.is_floating]
    parts = [tf.cast(tensor, tf.float32).numpy().ravel() for tensor in floating]
    flat = np.concatenate([np.zeros(0, np.float32), *parts])
    magnitudes = np.abs(flat[np.isfinite(flat)])
    positive = magnitudes[magnitudes > 0]
    return Values(
        size=flat.size,
        largest=float(magnitudes.max(initial=0)),
        smallest=float(positive.min()) if positive.size else 0.0,
        infinite=int(np.isinf(flat).sum()),
        nan=int(np.isnan(flat).sum()),
    )
